// Rotary position embedding: element i of a head turns with element i + D/2.
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (token of B·S) for (h) for (i < D/2) {
//     a = x[token][h][i], b = x[token][h][i + D/2], c and s of positions[token % S] and i;
//     x[token][h][i] = a * c - b * s;
//     x[token][h][i + D/2] = b * c + a * s;
//   }
// A block a token, four pairs a thread. A thread finds its place by 32-bit divisions; one of 64 bits takes as long as all
// the rest. A position outside the table of P rows is left for the host to read, who would have to wait to look first.
template <typename T>
__global__ void rope_kernel(T* x, const float* cos, const float* sin, const int32_t* positions, int64_t P, float sign,
                            int64_t S, int heads, int half, WrongPosition* wrong) {
  const int32_t position = positions[blockIdx.x % S];
  if (position < 0 || position >= P) {
    if (threadIdx.x == 0) *wrong = {true, position, P};
    return;
  }
  const int64_t at = int64_t{position} * half;
  T* const token = x + int64_t{blockIdx.x} * heads * half * 2;
  const int fours = (half + 3) / 4;  // of a head
  for (int four = threadIdx.x; four < heads * fours; four += blockDim.x) {
    const int h = four / fours, i = four % fours * 4, left = half - i;
    T *const low = token + 2 * h * half + i, *const high = low + half;
    Four a = load(low, left), b = load(high, left);
    const Four c = load(cos + at + i, left), s = load(sin + at + i, left);
    for (int j = 0; j < 4; ++j) {
      const float before = a.at[j], turn = sign * s.at[j];
      a.at[j] = before * c.at[j] - b.at[j] * turn;
      b.at[j] = b.at[j] * c.at[j] + before * turn;
    }
    store(low, left, a);
    store(high, left, b);
  }
}

}  // namespace

template <typename T>
void rope(T* x, const float* cos, const float* sin, const int32_t* positions, int64_t P, bool backward, int64_t B,
          int64_t S, int64_t H, int64_t D, WrongPosition* wrong, cudaStream_t stream) {
  if (H * D == 0) return;
  launch(rope_kernel<T>, B * S, threads_for_row(H * D / 2), 0, stream, x, cos, sin, positions, P,
         backward ? -1.0f : 1.0f, S, static_cast<int>(H), static_cast<int>(D / 2), wrong);
}

template void rope(float*, const float*, const float*, const int32_t*, int64_t, bool, int64_t, int64_t, int64_t,
                   int64_t, WrongPosition*, cudaStream_t);
template void rope(bf16*, const float*, const float*, const int32_t*, int64_t, bool, int64_t, int64_t, int64_t, int64_t,
                   WrongPosition*, cudaStream_t);

}  // namespace course::cuda
