// Four floats that a thread reads or writes at once. A warp then moves 512 bytes by one instruction instead of 128: it
// has more bytes under way, which is what reaches the bandwidth of the memory.
//
//   for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
//     Four a = load(x + i, n - i);
//     for (float& v : a.at) v *= factor;
//     store(x + i, n - i, a);
//   }
#pragma once

#include <cstdint>

#include "common/backend/cuda/launch.hpp"

namespace course::cuda {

struct alignas(16) Four {
  float at[4];
};

// One access of 16 bytes needs an address that 16 divides. A row starts at one where its length is a multiple of four.
__device__ inline bool aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % sizeof(Four) == 0; }

// `left` is how many elements there are from here on, 0 or less past the end: those beyond are not read, and count as
// `beyond`.
__device__ inline Four load(const float* from, int64_t left, float beyond = 0) {
  if (left >= 4 && aligned(from)) return *reinterpret_cast<const Four*>(from);
  Four x;
  for (int i = 0; i < 4; ++i) x.at[i] = i < left ? from[i] : beyond;
  return x;
}

__device__ inline void store(float* to, int64_t left, const Four& x) {
  if (left >= 4 && aligned(to)) {
    *reinterpret_cast<Four*>(to) = x;
    return;
  }
  for (int i = 0; i < 4; ++i)
    if (i < left) to[i] = x.at[i];
}

}  // namespace course::cuda
