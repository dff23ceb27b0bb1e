// Which elements a thread takes. Kernels that do the same to every element stride over them: whatever the grid, each
// element has its thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/backend/cuda/launch.hpp"

namespace course::cuda {

inline constexpr int kWarp = 32;  // threads that go in step

__device__ inline int64_t first_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t index_step() { return int64_t{gridDim.x} * blockDim.x; }

constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

// Blocks where each thread takes four elements at a time.
inline int64_t blocks_for_fours(int64_t n) { return blocks_for(ceil_div(n, 4)); }

// Threads of a block that works on one row, four elements a thread: whole warps, no more than the row keeps busy.
inline int threads_for_row(int64_t columns) {
  return static_cast<int>(std::clamp<int64_t>(ceil_div(ceil_div(columns, 4), kWarp) * kWarp, kWarp, kThreads));
}

}  // namespace course::cuda
