// Every way to hand a tensor to a styled module and to take one from it, for the tests of this chapter.
#pragma once

#include "tests/support/check_module.hpp"

namespace course::test {

struct Layouts {
  Placement style_input, output;  // what the style is told
  bool local_output;
  ModuleCheck check;  // what check_module() then does
};

inline std::string shown(const Layouts& at) {
  return cat(show(at.check.input), at.check.with_layout ? " with a layout" : " plain", " to ", show(at.output),
             at.local_output ? " local" : "");
}

// For x of this shape. `wanted` is the placement in which the style computes; with partial_gradient an input that comes
// so gets its gradient as P. Inputs: Replicate and Shard of each dim, as DTensors, and plain where the parts are even
// or the cut dim is the last, whose size a Linear knows.
inline std::vector<Layouts> layouts(const Placement& wanted, bool partial_gradient, const Shape& x, int64_t ranks,
                                    double tolerance = 1e-5) {
  const auto dims = static_cast<int64_t>(x.size());
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < dims; ++d) placements.push_back(Shard(d));
  std::vector<Layouts> all;
  for (const Placement& input : placements)
    for (const bool with_layout : {false, true}) {
      const Shard* cut = as_shard(input);
      if (!with_layout && cut && cut->dim + 1 != dims && x[cut->dim] % ranks) continue;
      for (const Placement& output : placements)
        for (const bool local_output : {true, false}) {
          ModuleCheck check{.input = input, .with_layout = with_layout, .output = output, .tolerance = tolerance};
          if (with_layout && partial_gradient && input == from_front(wanted, dims)) check.input_gradient = Partial();
          // What the style is told of a plain input counts; a DTensor knows better.
          all.push_back({with_layout ? wanted : input, output, local_output, check});
        }
    }
  return all;
}

}  // namespace course::test
