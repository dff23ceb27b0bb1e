#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"

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

void gelu(const float* x, Gelu kind, float* y, int64_t n) {
  if (kind == Gelu::Exact) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) y[i] = gelu_exact(x[i]);
  } else {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) y[i] = gelu_tanh(x[i]);
  }
}

void gelu_backward(const float* dy, const float* x, Gelu kind, float* dx, int64_t n) {
  if (kind == Gelu::Exact) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * gelu_exact_slope(x[i]);
  } else {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * gelu_tanh_slope(x[i]);
  }
}

void silu_mul(const float* gate, const float* up, float* y, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void silu_mul_backward(const float* dy, const float* gate, const float* up, float* dgate, float* dup, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads / 4)
  for (int64_t i = 0; i < n; ++i) {
    const float g = gate[i], s = sigmoid(g), d = dy[i], u = up[i];
    dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
    dup[i] = d * g * s;
  }
}

}  // namespace course::cpu
