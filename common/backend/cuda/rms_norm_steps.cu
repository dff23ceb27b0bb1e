// RMSNorm, the steps before norm.cu. The work is always the same:
//
//   for (n) {
//     for (e) squares += x[n][e] * x[n][e];
//     rstd[n] = 1 / sqrt(squares / E + eps);
//     for (e) y[n][e] = x[n][e] * rstd[n] * weight[e];
//   }
//
// What changes is who reads what, and when.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/kernels.hpp"
#include "common/backend/cuda/steps.hpp"

namespace course::cuda {

namespace {

__device__ float rstd_of(float squares, int64_t E, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(E) + eps);
}

// Step 1, the loop as it stands: a thread takes a row. Neighbouring threads read E elements apart, so each number that
// a warp reads lies in a piece of memory of its own, 32 bytes fetched for 4; and N rows keep N threads busy where a
// card has 200,000.
__global__ void of_thread_kernel(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N,
                                 int64_t E) {
  const int64_t n = first_index();
  if (n >= N) return;
  float squares = 0;
  for (int64_t e = 0; e < E; ++e) squares += x[n * E + e] * x[n * E + e];
  rstd[n] = rstd_of(squares, E, eps);
  for (int64_t e = 0; e < E; ++e) y[n * E + e] = x[n * E + e] * rstd[n] * weight[e];
}

// Step 2: a block takes a row, and its threads read neighbours, so all that is fetched is used. Their sums meet in
// shared memory: half of the threads add the other half's, then a quarter, and so on. Eight barriers for 256 threads.
__global__ void in_shared_kernel(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t E) {
  __shared__ float sums[kThreads];
  const int64_t row = blockIdx.x * E;
  float squares = 0;
  for (int64_t e = threadIdx.x; e < E; e += kThreads) squares += x[row + e] * x[row + e];
  sums[threadIdx.x] = squares;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  __syncthreads();
  const float r = rstd_of(sums[0], E, eps);
  for (int64_t e = threadIdx.x; e < E; e += kThreads) y[row + e] = x[row + e] * r * weight[e];
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// Step 3: a warp's 32 threads hand each other their sums by shuffles, without memory and without a barrier; shared
// memory only joins the warps (block_reduce.cuh). What is left to gain is in the reading: norm.cu takes four elements
// at once.
__global__ void of_warp_kernel(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t E) {
  const int64_t row = blockIdx.x * E;
  float squares = 0;
  for (int64_t e = threadIdx.x; e < E; e += kThreads) squares += x[row + e] * x[row + e];
  const float r = rstd_of(block_sum(squares), E, eps);
  for (int64_t e = threadIdx.x; e < E; e += kThreads) y[row + e] = x[row + e] * r * weight[e];
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

}  // namespace

void rms_norm_of_thread(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                        cudaStream_t stream) {
  launch(of_thread_kernel, ceil_div(N, kThreads), kThreads, 0, stream, x, weight, eps, y, rstd, N, E);
}

void rms_norm_in_shared(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                        cudaStream_t stream) {
  launch(in_shared_kernel, N, kThreads, 0, stream, x, weight, eps, y, rstd, E);
}

void rms_norm_of_warp(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                      cudaStream_t stream) {
  launch(of_warp_kernel, N, kThreads, 0, stream, x, weight, eps, y, rstd, E);
}

}  // namespace course::cuda
