// Softmax by row, in steps:
//
//   for (n) {
//     for (e) top = max(top, x[n][e]);                  so that no exponential is larger than 1
//     for (e) sum += exp(x[n][e] - top);
//     for (e) y[n][e] = exp(x[n][e] - top) / sum;
//   }
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"
#include "common/backend/cuda/steps.hpp"

namespace course::cuda {

namespace {

constexpr float kInfinity = __builtin_huge_valf();

// Step 1: a thread takes a row, which is read three times, each time 32 bytes for 4.
__global__ void softmax_of_thread_kernel(const float* x, float* y, int64_t N, int64_t E) {
  const int64_t n = first_index();
  if (n >= N) return;
  const float* const row = x + n * E;
  float top = -kInfinity, sum = 0;
  for (int64_t e = 0; e < E; ++e) top = fmaxf(top, row[e]);
  for (int64_t e = 0; e < E; ++e) sum += expf(row[e] - top);
  for (int64_t e = 0; e < E; ++e) y[n * E + e] = expf(row[e] - top) / sum;
}

// Halves the threads that fold, until the first has all. Everyone gets the result. `all` has room for one a thread.
template <typename Fold>
__device__ float fold_in_shared(float mine, Fold fold, float* all) {
  all[threadIdx.x] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) all[threadIdx.x] = fold(all[threadIdx.x], all[threadIdx.x + half]);
  }
  __syncthreads();
  mine = all[0];
  __syncthreads();  // the next call may write
  return mine;
}

// Step 2: a block takes a row, its threads read neighbours, maximum and sum meet in shared memory.
__global__ void softmax_in_shared_kernel(const float* x, float* y, int64_t E) {
  __shared__ float all[kThreads];
  const int64_t row = blockIdx.x * E;
  float top = -kInfinity, sum = 0;
  for (int64_t e = threadIdx.x; e < E; e += kThreads) top = fmaxf(top, x[row + e]);
  top = fold_in_shared(top, Max(), all);
  for (int64_t e = threadIdx.x; e < E; e += kThreads) sum += expf(x[row + e] - top);
  sum = fold_in_shared(sum, Sum(), all);
  for (int64_t e = threadIdx.x; e < E; e += kThreads) y[row + e] = expf(x[row + e] - top) / sum;
}

// What is known of some elements: the largest, and Σ exp(x - top). Two such are put together by shrinking the sum of
// the one with the smaller top.
struct Seen {
  float top, sum;
};
__device__ Seen together(Seen a, Seen b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -kInfinity) return {top, 0};
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

// Step 3: maximum and sum in one pass, so the row is read twice and not three times; four elements at once; shuffles. A
// shuffle carries one number, so a warp's lanes hand over two. Milakov and Gimelshein, arXiv:1805.02867
__global__ void softmax_online_kernel(const float* x, float* y, int64_t E) {
  __shared__ Seen of_warp[kWarp];
  const float* const in = x + blockIdx.x * E;
  float* const out = y + blockIdx.x * E;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  Seen seen = {-kInfinity, 0};
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    const Four a = load(in + e, E - e, -kInfinity);
    Seen four = {fmaxf(fmaxf(a.at[0], a.at[1]), fmaxf(a.at[2], a.at[3])), 0};
    for (float v : a.at) four.sum += four.top == -kInfinity ? 0 : expf(v - four.top);
    seen = together(seen, four);
  }
  for (int round = 0; round < 2; ++round) {  // within the warp, then over the warps
    for (int away = kWarp / 2; away > 0; away /= 2) {
      const float top = __shfl_xor_sync(kAllLanes, seen.top, away), sum = __shfl_xor_sync(kAllLanes, seen.sum, away);
      seen = together(seen, {top, sum});
    }
    if (round == 1) break;
    if (lane == 0) of_warp[warp] = seen;
    __syncthreads();
    seen = lane < warps ? of_warp[lane] : Seen{-kInfinity, 0};
  }
  seen = {__shfl_sync(kAllLanes, seen.top, 0),
          __shfl_sync(kAllLanes, seen.sum, 0)};  // a*b + c*d and c*d + a*b may differ
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    Four a = load(in + e, E - e);
    for (float& v : a.at) v = expf(v - seen.top) / seen.sum;
    store(out + e, E - e, a);
  }
}

}  // namespace

void softmax_of_thread(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream) {
  launch(softmax_of_thread_kernel, ceil_div(N, kThreads), kThreads, 0, stream, x, y, N, E);
}

void softmax_in_shared(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream) {
  launch(softmax_in_shared_kernel, N, kThreads, 0, stream, x, y, E);
}

void softmax_online(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream) {
  launch(softmax_online_kernel, N, threads_for_row(E), 0, stream, x, y, E);
}

}  // namespace course::cuda
