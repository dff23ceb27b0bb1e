// RMSNorm. A block takes a row, because the row's sum of squares needs all of it; the second pass over the row finds it
// in the cache. The row lies in memory once to be read and once to be written: that traffic is all the time there is.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

extern __shared__ __align__(16) float shared[];

namespace {

//   for (n) {
//     for (e) squares += x[n][e] * x[n][e];
//     rstd[n] = 1 / sqrt(squares / E + eps);
//     for (e) y[n][e] = x[n][e] * rstd[n] * weight[e];
//   }
template <typename T>
__global__ void rms_norm_kernel(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t E) {
  const T* const in = x + blockIdx.x * E;
  T* const out = y + blockIdx.x * E;
  float squares = 0;
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    const Four a = load(in + e, E - e);
    for (float v : a.at) squares += v * v;
  }
  const float r = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(E) + eps);
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    const Four a = load(in + e, E - e), w = load(weight + e, E - e);
    Four b;
    for (int j = 0; j < 4; ++j) b.at[j] = a.at[j] * r * w.at[j];
    store(out + e, E - e, b);
  }
  if (threadIdx.x == 0) rstd[blockIdx.x] = r;
}

// With x̂ = x·rstd and g = dy·weight: dx = rstd · (g - x̂ · mean(g·x̂)), dweight = Σ_n dy·x̂.
//
//   for (n) {
//     for (e) dot += dy[n][e] * weight[e] * x[n][e];
//     for (e) {
//       dx[n][e] = rstd[n] * (dy[n][e] * weight[e] - x[n][e] * dot * rstd[n]² / E);
//       dweight[e] += dy[n][e] * x[n][e] * rstd[n];
//     }
//   }
//
// A block takes every gridDim-th row and sums its part of dweight as it goes, each thread its own columns: in shared
// memory, or, where a row does not fit there, in `partial` itself.
template <typename T>
__global__ void rms_norm_backward_kernel(const T* dy, const T* x, const T* weight, const float* rstd, T* dx,
                                         float* partial, int64_t N, int64_t E, bool fits) {
  float* const part = partial + blockIdx.x * E;
  float* const sums = fits ? shared : part;
  const int64_t begin = 4 * threadIdx.x, step = 4 * blockDim.x;
  for (int64_t e = begin; e < E; e += step) store(sums + e, E - e, {});
  for (int64_t n = blockIdx.x; n < N; n += gridDim.x) {
    const T *const in = x + n * E, *const grad = dy + n * E;
    float dot = 0;
    for (int64_t e = begin; e < E; e += step) {
      const Four a = load(in + e, E - e), g = load(grad + e, E - e), w = load(weight + e, E - e);
      for (int j = 0; j < 4; ++j) dot += g.at[j] * w.at[j] * a.at[j];
    }
    const float r = rstd[n], slope = block_sum(dot) * r * r / static_cast<float>(E);
    for (int64_t e = begin; e < E; e += step) {
      const Four a = load(in + e, E - e), g = load(grad + e, E - e), w = load(weight + e, E - e);
      Four out, sum = load(sums + e, E - e);
      for (int j = 0; j < 4; ++j) {
        out.at[j] = r * (g.at[j] * w.at[j] - a.at[j] * slope);
        sum.at[j] += g.at[j] * a.at[j] * r;
      }
      store(dx + n * E + e, E - e, out);
      store(sums + e, E - e, sum);
    }
  }
  if (fits)
    for (int64_t e = begin; e < E; e += step) store(part + e, E - e, load(sums + e, E - e));
}

}  // namespace

template <typename T>
void rms_norm(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t N, int64_t E, cudaStream_t stream) {
  launch(rms_norm_kernel<T>, N, threads_for_row(E), 0, stream, x, weight, eps, y, rstd, E);
}

// Enough to fill a card, few enough to be added up in one step.
int64_t norm_blocks(int64_t N) { return std::min<int64_t>(N, 512); }

template <typename T>
void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* rstd, T* dx, float* dweight,
                       float* partial, int64_t N, int64_t E, cudaStream_t stream) {
  if (N == 0 || E == 0) return;
  constexpr int64_t kPlain = 40 << 10;  // bytes of shared memory that any card gives; some is block_sum's
  const int64_t blocks = norm_blocks(N), bytes = E * static_cast<int64_t>(sizeof(float));
  const bool fits = bytes <= kPlain;
  launch(rms_norm_backward_kernel<T>, blocks, threads_for_row(E), fits ? bytes : 0, stream, dy, x, weight, rstd, dx,
         partial, N, E, fits);
  add_columns(partial, dweight, blocks, E, stream);
}

template void rms_norm(const float*, const float*, float, float*, float*, int64_t, int64_t, cudaStream_t);
template void rms_norm(const bf16*, const bf16*, float, bf16*, float*, int64_t, int64_t, cudaStream_t);
template void rms_norm_backward(const float*, const float*, const float*, const float*, float*, float*, float*,
                                int64_t, int64_t, cudaStream_t);
template void rms_norm_backward(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, float*, int64_t,
                                int64_t, cudaStream_t);

}  // namespace course::cuda
