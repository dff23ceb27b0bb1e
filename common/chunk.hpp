// Who gets what when n things are cut over p ranks: torch.chunk's rule.
//
// Sizes are ceil(n/p) from the front; the last ranks may be short or empty: 5 over 4 is 2, 2, 1, 0. With a block the cut
// falls between blocks only (n counts elements, blocks are dealt by the same rule): 768 in blocks of 256 over 2 is
// 512, 256. https://docs.pytorch.org/docs/stable/generated/torch.chunk.html
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/check.hpp"

namespace course {

struct Chunk {
  int64_t offset, size;  // in elements
  int64_t end() const { return offset + size; }
  bool operator==(const Chunk&) const = default;
};

// The piece of rank r. Throws when block does not divide n, or r is not in 0..p-1.
inline Chunk chunk(int64_t n, int64_t p, int64_t r, int64_t block = 1) {
  require(n >= 0 && p > 0 && r >= 0 && r < p, "cannot cut ", n, " over ", p, " ranks for rank ", r);
  require(block > 0 && n % block == 0, "cannot cut ", n, " in blocks of ", block);
  const int64_t blocks = n / block, full = (blocks + p - 1) / p;
  const int64_t begin = std::min(blocks, r * full), end = std::min(blocks, (r + 1) * full);
  return {begin * block, (end - begin) * block};
}

// The sizes of all p pieces, each times `each` (elements a row, say).
inline std::vector<int64_t> chunk_sizes(int64_t n, int64_t p, int64_t block = 1, int64_t each = 1) {
  std::vector<int64_t> sizes(p);
  for (int64_t r = 0; r < p; ++r) sizes[r] = chunk(n, p, r, block).size * each;
  return sizes;
}

}  // namespace course
