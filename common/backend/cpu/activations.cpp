#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"
#include "common/bf16.hpp"

namespace course::cpu {

namespace {

constexpr float kRootHalf = 0.70710678f, kRootTwoOverPi = 0.79788456f, kRootTwoPiInverse = 0.39894228f,
                kCubic = 0.044715f;

float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

float gelu_exact(float x) { return 0.5f * x * (1.0f + erf(x * kRootHalf)); }

float gelu_exact_slope(float x) {
  return 0.5f * (1.0f + erf(x * kRootHalf)) + x * kRootTwoPiInverse * exp(-0.5f * x * x);
}

// Beyond ±16 the tanh is ±1 and the cube would only overflow.
float clamped(float x) { return x < -16.0f ? -16.0f : x > 16.0f ? 16.0f : x; }

float gelu_tanh(float x) {
  const float c = clamped(x);
  return 0.5f * x * (1.0f + tanh(kRootTwoOverPi * (c + kCubic * c * c * c)));
}

float gelu_tanh_slope(float x) {
  const float c = clamped(x);
  const float t = tanh(kRootTwoOverPi * (c + kCubic * c * c * c));
  return 0.5f * (1.0f + t) + 0.5f * c * (1.0f - t * t) * kRootTwoOverPi * (1.0f + 3.0f * kCubic * c * c);
}

}  // namespace

template <typename T>
void gelu(const T* x, Gelu kind, T* y, int64_t n) {
  if (kind == Gelu::Exact) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) store(y[i], gelu_exact(x[i]));
  } else {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) store(y[i], gelu_tanh(x[i]));
  }
}

template <typename T>
void gelu_backward(const T* dy, const T* x, Gelu kind, T* dx, int64_t n) {
  if (kind == Gelu::Exact) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) store(dx[i], dy[i] * gelu_exact_slope(x[i]));
  } else {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) store(dx[i], dy[i] * gelu_tanh_slope(x[i]));
  }
}

template <typename T>
void silu_mul(const T* gate, const T* up, T* y, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
  for (int64_t i = 0; i < n; ++i) store(y[i], gate[i] * sigmoid(gate[i]) * up[i]);
}

template <typename T>
void silu_mul_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
  for (int64_t i = 0; i < n; ++i) {
    const float g = gate[i], s = sigmoid(g), d = dy[i], u = up[i];
    store(dgate[i], d * u * s * (1.0f + g * (1.0f - s)));
    store(dup[i], d * g * s);
  }
}

template void gelu(const float*, Gelu, float*, int64_t);
template void gelu(const BFloat16*, Gelu, BFloat16*, int64_t);
template void gelu_backward(const float*, const float*, Gelu, float*, int64_t);
template void gelu_backward(const BFloat16*, const BFloat16*, Gelu, BFloat16*, int64_t);
template void silu_mul(const float*, const float*, float*, int64_t);
template void silu_mul(const BFloat16*, const BFloat16*, BFloat16*, int64_t);
template void silu_mul_backward(const float*, const float*, const float*, float*, float*, int64_t);
template void silu_mul_backward(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, BFloat16*, int64_t);

}  // namespace course::cpu
