// Functions of one element: GeLU, and SwiGLU's silu(gate)·up, with their derivatives. A thread takes four neighbours at
// a time; the arithmetic hides behind the memory.
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

constexpr float kRootHalf = 0.70710678f, kRootTwoOverPi = 0.79788456f, kRootTwoPiInverse = 0.39894228f,
                kCubic = 0.044715f;

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Beyond ±16 the tanh is ±1 and the cube would only overflow. A nan stays.
__device__ float clamped(float x) { return x < -16.0f ? -16.0f : x > 16.0f ? 16.0f : x; }

// x·Φ(x), and Φ(x) + x·φ(x)
struct GeluExact {
  __device__ static float value(float x) { return 0.5f * x * (1.0f + erff(x * kRootHalf)); }
  __device__ static float slope(float x) {
    return 0.5f * (1.0f + erff(x * kRootHalf)) + x * kRootTwoPiInverse * expf(-0.5f * x * x);
  }
};

struct GeluTanh {
  __device__ static float value(float x) {
    const float c = clamped(x);
    return 0.5f * x * (1.0f + tanhf(kRootTwoOverPi * (c + kCubic * c * c * c)));
  }
  __device__ static float slope(float x) {
    const float c = clamped(x);
    const float t = tanhf(kRootTwoOverPi * (c + kCubic * c * c * c));
    return 0.5f * (1.0f + t) + 0.5f * c * (1.0f - t * t) * kRootTwoOverPi * (1.0f + 3.0f * kCubic * c * c);
  }
};

//   for (i) y[i] = gelu(x[i]);
template <typename Kind, typename T>
__global__ void gelu_kernel(const T* x, T* y, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    Four a = load(x + i, n - i);
    for (float& v : a.at) v = Kind::value(v);
    store(y + i, n - i, a);
  }
}

//   for (i) dx[i] = dy[i] * gelu'(x[i]);
template <typename Kind, typename T>
__global__ void gelu_backward_kernel(const T* dy, const T* x, T* dx, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    const Four a = load(x + i, n - i);
    Four d = load(dy + i, n - i);
    for (int j = 0; j < 4; ++j) d.at[j] *= Kind::slope(a.at[j]);
    store(dx + i, n - i, d);
  }
}

//   for (i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
template <typename T>
__global__ void silu_mul_kernel(const T* gate, const T* up, T* y, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    const Four g = load(gate + i, n - i), u = load(up + i, n - i);
    Four out;
    for (int j = 0; j < 4; ++j) out.at[j] = g.at[j] * sigmoid(g.at[j]) * u.at[j];
    store(y + i, n - i, out);
  }
}

//   for (i) {
//     s = sigmoid(gate[i]);
//     dgate[i] = dy[i] * up[i] * s * (1 + gate[i] * (1 - s));
//     dup[i] = dy[i] * gate[i] * s;
//   }
template <typename T>
__global__ void silu_mul_backward_kernel(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    const Four d = load(dy + i, n - i), g = load(gate + i, n - i), u = load(up + i, n - i);
    Four by_gate, by_up;
    for (int j = 0; j < 4; ++j) {
      const float s = sigmoid(g.at[j]);
      by_gate.at[j] = d.at[j] * u.at[j] * s * (1.0f + g.at[j] * (1.0f - s));
      by_up.at[j] = d.at[j] * g.at[j] * s;
    }
    store(dgate + i, n - i, by_gate);
    store(dup + i, n - i, by_up);
  }
}

}  // namespace

template <typename T>
void gelu(const T* x, Gelu kind, T* y, int64_t n, cudaStream_t stream) {
  const auto kernel = kind == Gelu::Exact ? gelu_kernel<GeluExact, T> : gelu_kernel<GeluTanh, T>;
  launch(kernel, blocks_for_fours(n), kThreads, 0, stream, x, y, n);
}

template <typename T>
void gelu_backward(const T* dy, const T* x, Gelu kind, T* dx, int64_t n, cudaStream_t stream) {
  const auto kernel = kind == Gelu::Exact ? gelu_backward_kernel<GeluExact, T> : gelu_backward_kernel<GeluTanh, T>;
  launch(kernel, blocks_for_fours(n), kThreads, 0, stream, dy, x, dx, n);
}

template <typename T>
void silu_mul(const T* gate, const T* up, T* y, int64_t n, cudaStream_t stream) {
  launch(silu_mul_kernel<T>, blocks_for_fours(n), kThreads, 0, stream, gate, up, y, n);
}

template <typename T>
void silu_mul_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n, cudaStream_t stream) {
  launch(silu_mul_backward_kernel<T>, blocks_for_fours(n), kThreads, 0, stream, dy, gate, up, dgate, dup, n);
}

template void gelu(const float*, Gelu, float*, int64_t, cudaStream_t);
template void gelu(const bf16*, Gelu, bf16*, int64_t, cudaStream_t);
template void gelu_backward(const float*, const float*, Gelu, float*, int64_t, cudaStream_t);
template void gelu_backward(const bf16*, const bf16*, Gelu, bf16*, int64_t, cudaStream_t);
template void silu_mul(const float*, const float*, float*, int64_t, cudaStream_t);
template void silu_mul(const bf16*, const bf16*, bf16*, int64_t, cudaStream_t);
template void silu_mul_backward(const float*, const float*, const float*, float*, float*, int64_t, cudaStream_t);
template void silu_mul_backward(const bf16*, const bf16*, const bf16*, bf16*, bf16*, int64_t, cudaStream_t);

}  // namespace course::cuda
