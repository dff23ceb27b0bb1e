// Sums and maxima over a warp or a block. The order is fixed by the number of threads, so equal inputs give equal bits.
// Every thread of the warp or block calls, and every one gets the result.
//
// A warp needs no memory: in five steps each lane adds what the lane 16, 8, 4, 2, 1 places away has.
//
//   lanes  a b c d   ->   a+c b+d c+a d+b   ->   all four of them a+b+c+d
//
// A block puts one result a warp into shared memory, and each thread folds those few, all in the same order.
#pragma once

#include "common/backend/cuda/index.cuh"

namespace course::cuda {

inline constexpr unsigned kAllLanes = 0xffffffff;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {  // a nan loses against a number
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Min {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

// Over each `width` neighbours, a power of two up to 32. fold(a, b) = fold(b, a).
template <typename T, typename Fold>
__device__ T warp_reduce(T x, Fold fold, int width = kWarp) {
  for (int away = width / 2; away > 0; away /= 2) x = fold(x, __shfl_xor_sync(kAllLanes, x, away));
  return x;
}

// The block has whole warps, at most 32.
template <typename T, typename Fold>
__device__ T block_reduce(T x, Fold fold) {
  __shared__ T of_warp[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  x = warp_reduce(x, fold);
  if (warps == 1) return x;
  if (lane == 0) of_warp[warp] = x;
  __syncthreads();
  x = of_warp[0];
  for (int w = 1; w < warps; ++w) x = fold(x, of_warp[w]);
  __syncthreads();  // a second call may write of_warp again
  return x;
}

template <typename T>
__device__ T block_sum(T x) {
  return block_reduce(x, Sum());
}

}  // namespace course::cuda
