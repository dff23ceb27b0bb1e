// Sums over a whole tensor and over its rows. Both go in two steps: many blocks sum a part each, then the parts are
// added in their order. How the work is cut depends on the sizes alone, so the bits are the same every time.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (i) sum += double(x[i]) * x[i];
template <typename T>
__global__ void squares_kernel(const T* x, int64_t n, double* partial) {
  double sum = 0;
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    const Four a = load(x + i, n - i);
    for (float v : a.at) sum += static_cast<double>(v) * v;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_up_kernel(const double* partial, int64_t parts, double* result) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

//   for (n) for (e) sum[e] += x[n][e];
// A block takes 32 columns of some rows, one lane a column, so that a warp reads 32 neighbours; its warps take the rows
// in turns. Block (i, p) takes part p of the rows.
template <typename T>
__global__ void column_sums_kernel(const T* x, int64_t N, int64_t E, int64_t part, float* sums, bool adds) {
  __shared__ float of_warp[kThreads / kWarp][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = kThreads / kWarp;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane, begin = blockIdx.y * part;
  const int64_t end = begin + part < N ? begin + part : N;
  float sum = 0;
  if (column < E)
    for (int64_t n = begin + warp; n < end; n += warps) sum += wide(x[n * E + column]);
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= E) return;
  for (int w = 1; w < warps; ++w) sum += of_warp[w][lane];
  float* const out = sums + blockIdx.y * E + column;
  *out = adds ? *out + sum : sum;
}

template <typename T>
void column_sums(const T* x, int64_t N, int64_t E, int64_t parts, float* sums, bool adds, cudaStream_t stream) {
  launch(column_sums_kernel<T>, {ceil_div(E, kWarp), parts}, kThreads, 0, stream, x, N, E, ceil_div(N, parts), sums,
         adds);
}

constexpr int64_t kMostParts = 512;

}  // namespace

// A thread adds 16 numbers before the threads of its block add theirs: that takes shuffles and barriers.
int64_t norm_parts(int64_t n) { return std::clamp<int64_t>(ceil_div(n, 16 * kThreads), 1, kMostParts); }

template <typename T>
void squared_norm(const T* x, int64_t n, double* partial, double* result, cudaStream_t stream) {
  const int64_t parts = norm_parts(n);
  launch(squares_kernel<T>, parts, kThreads, 0, stream, x, n, parts > 1 ? partial : result);
  if (parts > 1) launch(add_up_kernel, 1, kThreads, 0, stream, partial, parts, result);
}

void add_columns(const float* x, float* sums, int64_t N, int64_t E, cudaStream_t stream) {
  column_sums(x, N, E, 1, sums, true, stream);
}

int64_t sum_parts(int64_t N) { return std::clamp<int64_t>(N / 256, 1, kMostParts); }

template <typename T>
void sum_rows(const T* dy, float* dbias, float* partial, int64_t N, int64_t E, cudaStream_t stream) {
  const int64_t parts = sum_parts(N);
  if (parts == 1) return column_sums(dy, N, E, 1, dbias, true, stream);
  column_sums(dy, N, E, parts, partial, false, stream);
  add_columns(partial, dbias, parts, E, stream);
}

template void squared_norm(const float*, int64_t, double*, double*, cudaStream_t);
template void squared_norm(const bf16*, int64_t, double*, double*, cudaStream_t);
template void sum_rows(const float*, float*, float*, int64_t, int64_t, cudaStream_t);
template void sum_rows(const bf16*, float*, float*, int64_t, int64_t, cudaStream_t);

}  // namespace course::cuda
