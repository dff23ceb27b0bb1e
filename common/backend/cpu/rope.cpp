#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/bf16.hpp"

namespace course::cpu {

template <typename T>
void rope(T* x, const float* cos, const float* sin, const int32_t* positions, bool backward, int64_t B, int64_t S,
          int64_t H, int64_t D) {
  const int64_t half = D / 2;
  const float sign = backward ? -1.0f : 1.0f;
#pragma omp parallel for if (B * S * H * D > kWorthThreads)
  for (int64_t token = 0; token < B * S; ++token) {
    const int64_t position = positions[token % S];
    const float *c = cos + at(position, half), *s = sin + at(position, half);
    for (int64_t h = 0; h < H; ++h) {
      T *low = x + at(token, H, h) * D, *high = low + half;
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const float a = low[i], b = high[i], t = sign * s[i];
        store(low[i], a * c[i] - b * t);
        store(high[i], b * c[i] + a * t);
      }
    }
  }
}

template void rope(float*, const float*, const float*, const int32_t*, bool, int64_t, int64_t, int64_t, int64_t);
template void rope(BFloat16*, const float*, const float*, const int32_t*, bool, int64_t, int64_t, int64_t, int64_t);

}  // namespace course::cpu
