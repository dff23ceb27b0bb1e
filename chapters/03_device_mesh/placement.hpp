// How a tensor lies on the ranks of one mesh axis: cut, copied, or to be added up. Tiny values that print and compare.
// The terms are PyTorch's: https://docs.pytorch.org/docs/stable/distributed.tensor.html
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/tensor.hpp"

namespace course {

// Each rank holds a piece of dim `dim`, cut by torch.chunk's rule, between blocks of `block` indices. A negative dim
// counts from the end.
struct Shard {
  int64_t dim;
  int64_t block = 1;
  bool operator==(const Shard&) const = default;
};

// Each rank holds the whole.
struct Replicate {
  bool operator==(const Replicate&) const = default;
};

// Each rank holds a tensor of the whole's shape; the value is their sum.
struct Partial {
  bool operator==(const Partial&) const = default;
};

using Placement = std::variant<Replicate, Shard, Partial>;
using Placements = std::vector<Placement>;  // one for each axis of a mesh

inline bool is_replicate(const Placement& p) { return std::holds_alternative<Replicate>(p); }
inline bool is_partial(const Placement& p) { return std::holds_alternative<Partial>(p); }
inline const Shard* as_shard(const Placement& p) { return std::get_if<Shard>(&p); }

std::string show(const Placement& p);    // "S(0)", "S(0,/256)" with blocks of 256, "R", "P"
std::string show(const Placements& ps);  // "[S(0),R]"

// The same placement with its dim counted from the front. Throws when a tensor of so many dims has no such dim.
Placement from_front(const Placement& p, int64_t dims);

// The placement in which a value of placement p wants its gradient.
inline Placement gradient_of(const Placement& p) { return is_partial(p) ? Placement(Replicate()) : p; }

}  // namespace course
