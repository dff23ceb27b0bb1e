// AdamW for many tensors by one kernel.
#include <cmath>

#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

constexpr int64_t kChunk = 16 * kThreads;  // elements of one tensor that a block takes

struct Factors {
  float keep, rate, root, new1, old2, new2, eps;
};

// Which blocks work on which tensor: t has those from begin[t] to begin[t + 1].
struct Chunks {
  int32_t begin[AdamWPointers::kMost + 1] = {};
};

//   for (t) for (i) {
//     mean[t][i] += (1 - beta1) * (grad[t][i] - mean[t][i]);
//     square[t][i] = beta2 * square[t][i] + (1 - beta2) * grad[t][i]²;
//     value[t][i] = value[t][i] * (1 - lr * decay)
//                   - lr / (1 - beta1^step) * mean[t][i] / (sqrt(square[t][i]) / sqrt(1 - beta2^step) + eps);
//   }
// The order of operations is that of torch.optim.AdamW.
__global__ void adamw_kernel(const AdamWPointers tensors, const Chunks chunks, Factors f) {
  int t = 0;
  while (static_cast<int32_t>(blockIdx.x) >= chunks.begin[t + 1]) ++t;
  float *const value = tensors.value[t], *const mean = tensors.mean[t], *const square = tensors.square[t];
  const float* const grad = tensors.grad[t];
  const int64_t n = tensors.size[t], begin = (blockIdx.x - chunks.begin[t]) * kChunk;
  const int64_t end = begin + kChunk < n ? begin + kChunk : n;
  for (int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * blockDim.x) {
    const Four g = load(grad + i, n - i);
    Four p = load(value + i, n - i), m = load(mean + i, n - i), v = load(square + i, n - i);
    for (int j = 0; j < 4; ++j) {
      m.at[j] += f.new1 * (g.at[j] - m.at[j]);
      v.at[j] = v.at[j] * f.old2 + f.new2 * g.at[j] * g.at[j];
      p.at[j] = p.at[j] * f.keep - f.rate * (m.at[j] / (sqrtf(v.at[j]) / f.root + f.eps));
    }
    store(mean + i, n - i, m);
    store(square + i, n - i, v);
    store(value + i, n - i, p);
  }
}

}  // namespace

void adamw(const AdamWPointers& tensors, const AdamWStep& step, cudaStream_t stream) {
  Chunks chunks;
  for (int t = 0; t < tensors.count; ++t)
    chunks.begin[t + 1] = chunks.begin[t] + static_cast<int32_t>(ceil_div(tensors.size[t], kChunk));
  const double correction1 = 1 - std::pow(step.beta1, step.step), correction2 = 1 - std::pow(step.beta2, step.step);
  Factors f;
  f.keep = static_cast<float>(1 - step.lr * step.weight_decay);
  f.rate = static_cast<float>(step.lr / correction1);
  f.root = static_cast<float>(std::sqrt(correction2));
  f.new1 = static_cast<float>(1 - step.beta1);
  f.old2 = static_cast<float>(step.beta2);
  f.new2 = static_cast<float>(1 - step.beta2);
  f.eps = static_cast<float>(step.eps);
  launch(adamw_kernel, chunks.begin[tensors.count], kThreads, 0, stream, tensors, chunks, f);
}

}  // namespace course::cuda
