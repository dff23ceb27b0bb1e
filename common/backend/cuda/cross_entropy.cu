// Softmax and cross-entropy on a shard of the vocabulary. A block takes a row: 256 threads walk along it, four columns
// a thread, then fold what each has found.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

constexpr float kInfinity = __builtin_huge_valf();

//   for (n) max[n] = the largest of logits[n], -inf where there is none;
template <typename T>
__global__ void row_max_kernel(const T* logits, float* max, int64_t columns) {
  const T* const row = logits + blockIdx.x * columns;
  float best = -kInfinity;
  for (int64_t c = 4 * threadIdx.x; c < columns; c += 4 * blockDim.x) {
    const Four a = load(row + c, columns - c, -kInfinity);
    for (float v : a.at) best = fmaxf(best, v);
  }
  best = block_reduce(best, Max());
  if (threadIdx.x == 0) max[blockIdx.x] = best;
}

//   for (n) for (c) sum[n] += exp(logits[n][c] - max[n]);          0 where max is -inf
template <typename T>
__global__ void row_sum_exp_kernel(const T* logits, const float* max, float* sum, int64_t columns) {
  const T* const row = logits + blockIdx.x * columns;
  const float top = max[blockIdx.x];
  float total = 0;
  for (int64_t c = 4 * threadIdx.x; c < columns; c += 4 * blockDim.x) {
    const Four a = load(row + c, columns - c, -kInfinity);
    for (float v : a.at) total += expf(v - top);
  }
  total = block_sum(total);
  if (threadIdx.x == 0) sum[blockIdx.x] = top == -kInfinity ? 0 : total;
}

//   for (n) picked[n] = begin <= targets[n] < begin + columns ? logits[n][targets[n] - begin] : 0;
template <typename T>
__global__ void pick_kernel(const T* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N,
                            int64_t columns) {
  for (int64_t n = first_index(); n < N; n += index_step()) {
    const int64_t column = targets[n] - begin;
    picked[n] = column >= 0 && column < columns ? wide(logits[n * columns + column]) : 0;
  }
}

//   for (n) for (c)
//     logits[n][c] = targets[n] == ignore ? 0 : (exp(logits[n][c] - max[n]) / sum[n] - (c is the target)) * factor;
template <typename T>
__global__ void cross_entropy_backward_kernel(T* logits, const float* max, const float* sum, const int32_t* targets,
                                              int64_t begin, int64_t ignore, float factor, int64_t columns) {
  T* const row = logits + blockIdx.x * columns;
  const bool ignored = targets[blockIdx.x] == ignore;
  const int64_t column = targets[blockIdx.x] - begin;
  const float top = max[blockIdx.x], share = factor / sum[blockIdx.x];
  for (int64_t c = 4 * threadIdx.x; c < columns; c += 4 * blockDim.x) {
    Four a = load(row + c, columns - c);
    for (int j = 0; j < 4; ++j) a.at[j] = ignored ? 0 : expf(a.at[j] - top) * share - (c + j == column ? factor : 0);
    store(row + c, columns - c, a);
  }
}

}  // namespace

template <typename T>
void row_max(const T* logits, float* max, int64_t N, int64_t columns, cudaStream_t stream) {
  launch(row_max_kernel<T>, N, threads_for_row(columns), 0, stream, logits, max, columns);
}

template <typename T>
void row_sum_exp(const T* logits, const float* max, float* sum, int64_t N, int64_t columns, cudaStream_t stream) {
  launch(row_sum_exp_kernel<T>, N, threads_for_row(columns), 0, stream, logits, max, sum, columns);
}

template <typename T>
void pick(const T* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns,
          cudaStream_t stream) {
  launch(pick_kernel<T>, blocks_for(N), kThreads, 0, stream, logits, targets, begin, picked, N, columns);
}

template <typename T>
void cross_entropy_backward(T* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns, cudaStream_t stream) {
  launch(cross_entropy_backward_kernel<T>, N, threads_for_row(columns), 0, stream, logits, max, sum, targets, begin,
         ignore, factor, columns);
}

template void row_max(const float*, float*, int64_t, int64_t, cudaStream_t);
template void row_max(const bf16*, float*, int64_t, int64_t, cudaStream_t);
template void row_sum_exp(const float*, const float*, float*, int64_t, int64_t, cudaStream_t);
template void row_sum_exp(const bf16*, const float*, float*, int64_t, int64_t, cudaStream_t);
template void pick(const float*, const int32_t*, int64_t, float*, int64_t, int64_t, cudaStream_t);
template void pick(const bf16*, const int32_t*, int64_t, float*, int64_t, int64_t, cudaStream_t);
template void cross_entropy_backward(float*, const float*, const float*, const int32_t*, int64_t, int64_t, float,
                                     int64_t, int64_t, cudaStream_t);
template void cross_entropy_backward(bf16*, const float*, const float*, const int32_t*, int64_t, int64_t, float,
                                     int64_t, int64_t, cudaStream_t);

}  // namespace course::cuda
