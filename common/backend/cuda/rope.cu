// Rotary position embedding: element i of a head turns with element i + D/2.
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (token of B·S) for (h) for (i < D/2) {
//     a = x[token][h][i], b = x[token][h][i + D/2], c and s of positions[token % S] and i;
//     x[token][h][i] = a * c - b * s;
//     x[token][h][i + D/2] = b * c + a * s;
//   }
// A block a token, so its threads find their places by 32-bit divisions; one of 64 bits takes as long as all the rest.
__global__ void rope_kernel(float* x, const float* cos, const float* sin, const int32_t* positions, float sign,
                            int64_t S, int heads, int half) {
  const int64_t at = int64_t{positions[blockIdx.x % S]} * half;
  float* const token = x + int64_t{blockIdx.x} * heads * half * 2;
  for (int pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
    const int h = pair / half, i = pair % half;
    float *const low = token + 2 * h * half + i, *const high = low + half;
    const float a = *low, b = *high, c = cos[at + i], s = sign * sin[at + i];
    *low = a * c - b * s;
    *high = b * c + a * s;
  }
}

}  // namespace

void rope(float* x, const float* cos, const float* sin, const int32_t* positions, bool backward, int64_t B, int64_t S,
          int64_t H, int64_t D, cudaStream_t stream) {
  if (H * D == 0) return;
  launch(rope_kernel, B * S, threads_for_row(2 * H * D), 0, stream, x, cos, sin, positions, backward ? -1.0f : 1.0f, S,
         static_cast<int>(H), static_cast<int>(D / 2));
}

}  // namespace course::cuda
