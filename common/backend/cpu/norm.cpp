#include <algorithm>
#include <cmath>

#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/bf16.hpp"

namespace course::cpu {

template <typename T>
void rms_norm(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t N, int64_t E) {
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t n = 0; n < N; ++n) {
    const T* in = x + at(n, E);
    T* out = y + at(n, E);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t e = 0; e < E; ++e) squares += float(in[e]) * float(in[e]);
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(E) + eps);
#pragma omp simd
    for (int64_t e = 0; e < E; ++e) store(out[e], in[e] * r * weight[e]);
    rstd[n] = r;
  }
}

int64_t norm_blocks(int64_t N) { return std::min(kSumBlocks, ceil_div(N, 16)); }

// With x̂ = x·rstd and g = dy·weight: dx = rstd · (g - x̂ · mean(g·x̂)), dweight = Σ_n dy·x̂.
template <typename T>
void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* rstd, T* dx, float* dweight,
                       float* partial, int64_t N, int64_t E) {
  if (N == 0 || E == 0) return;
  const int64_t blocks = norm_blocks(N), rows = ceil_div(N, blocks);
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t b = 0; b < blocks; ++b) {
    float* sums = partial + at(b, E);
    std::fill_n(sums, E, 0.0f);
    for (int64_t n = b * rows; n < std::min(N, (b + 1) * rows); ++n) {
      const T *in = x + at(n, E), *grad = dy + at(n, E);
      T* out = dx + at(n, E);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t e = 0; e < E; ++e) dot += float(grad[e]) * float(weight[e]) * float(in[e]);
      const float r = rstd[n], slope = dot * r * r / static_cast<float>(E);
#pragma omp simd
      for (int64_t e = 0; e < E; ++e) {
        const float g = grad[e];
        sums[e] += g * in[e] * r;
        store(out[e], r * (g * weight[e] - in[e] * slope));
      }
    }
  }
  for (int64_t b = 0; b < blocks; ++b) {
    const float* sums = partial + at(b, E);
#pragma omp simd
    for (int64_t e = 0; e < E; ++e) dweight[e] += sums[e];
  }
}

template void rms_norm(const float*, const float*, float, float*, float*, int64_t, int64_t);
template void rms_norm(const BFloat16*, const BFloat16*, float, BFloat16*, float*, int64_t, int64_t);
template void rms_norm_backward(const float*, const float*, const float*, const float*, float*, float*, float*, int64_t,
                                int64_t);
template void rms_norm_backward(const BFloat16*, const BFloat16*, const BFloat16*, const float*, BFloat16*, float*,
                                float*, int64_t, int64_t);

}  // namespace course::cpu
