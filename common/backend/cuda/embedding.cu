// Rows of a table picked by ids, and their gradient.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (n) y[n] = begin <= ids[n] < begin + rows ? table[ids[n] - begin] : 0;          a block a row of y
__global__ void embedding_kernel(const int32_t* ids, const float* table, int64_t begin, int64_t rows, float* y,
                                 int64_t E) {
  const int64_t row = ids[blockIdx.x] - begin;
  const bool ours = row >= 0 && row < rows;
  float* const out = y + blockIdx.x * E;
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x)
    store(out + e, E - e, ours ? load(table + row * E + e, E - e) : Four{});
}

// The gradient adds row n of dy to row ids[n] of the table. The same id may stand in many places: if each added when
// its turn comes, two could add to one number at once, and an atomic add would give another sum each time. So each id's
// first place does the adding for all of them, in their order, and this kernel finds who is next:
//
//   for (n) first[n] = no m < n has ids[m] = ids[n];
//   for (n) next[n] = the smallest m > n with ids[m] = ids[n], or N;
//
// N² comparisons, a thread a place, on ids that a block reads together, 256 at a time: 67 million for 8,192 places.
__global__ void next_place_kernel(const int32_t* ids, int64_t N, int64_t* next, int32_t* first) {
  __shared__ int32_t some[kThreads];
  const int64_t n = first_index();
  const int32_t mine = n < N ? ids[n] : 0;
  int64_t found = N;
  bool is_first = true;
  for (int64_t begin = 0; begin < N; begin += kThreads) {
    __syncthreads();  // all have done with the ids before
    if (begin + threadIdx.x < N) some[threadIdx.x] = ids[begin + threadIdx.x];
    __syncthreads();
    const int count = N - begin < kThreads ? static_cast<int>(N - begin) : kThreads;
    for (int i = 0; i < count; ++i) {
      const int64_t m = begin + i;
      if (some[i] != mine) continue;
      if (m < n) is_first = false;
      if (m > n && m < found) found = m;
    }
  }
  if (n >= N) return;
  next[n] = found;
  first[n] = is_first;
}

//   for (n) if (ours(ids[n])) dtable[ids[n] - begin] += dy[n];          a block an id, where it stands first
__global__ void embedding_backward_kernel(const int32_t* ids, const float* dy, int64_t begin, int64_t rows,
                                          float* dtable, const int64_t* next, const int32_t* first, int64_t N,
                                          int64_t E) {
  const int64_t row = ids[blockIdx.x] - begin;
  if (!first[blockIdx.x] || row < 0 || row >= rows) return;
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    float* const to = dtable + row * E + e;
    Four sum = load(to, E - e);
    for (int64_t n = blockIdx.x; n < N; n = next[n]) {
      const Four d = load(dy + n * E + e, E - e);
      for (int j = 0; j < 4; ++j) sum.at[j] += d.at[j];
    }
    store(to, E - e, sum);
  }
}

//   for (i) if (ids[i] < 0 || ids[i] >= end) return i;
//   return n;          one block: a batch has thousands of ids, not millions
__global__ void first_outside_kernel(const int32_t* ids, int64_t n, int64_t end, int64_t* index) {
  int64_t found = n;
  for (int64_t i = threadIdx.x; i < n && found == n; i += blockDim.x)
    if (ids[i] < 0 || ids[i] >= end) found = i;
  found = block_reduce(found, Min(), n);
  if (threadIdx.x == 0) *index = found;
}

}  // namespace

void embedding(const int32_t* ids, const float* table, int64_t begin, int64_t rows, float* y, int64_t N, int64_t E,
               cudaStream_t stream) {
  launch(embedding_kernel, N, threads_for_row(E), 0, stream, ids, table, begin, rows, y, E);
}

void embedding_backward(const int32_t* ids, const float* dy, int64_t begin, int64_t rows, float* dtable, int64_t* next,
                        int32_t* first, int64_t N, int64_t E, cudaStream_t stream) {
  launch(next_place_kernel, ceil_div(N, kThreads), kThreads, 0, stream, ids, N, next, first);
  launch(embedding_backward_kernel, N, threads_for_row(E), 0, stream, ids, dy, begin, rows, dtable, next, first, N, E);
}

void first_outside(const int32_t* ids, int64_t n, int64_t end, int64_t* index, cudaStream_t stream) {
  launch(first_outside_kernel, 1, kThreads, 0, stream, ids, n, end, index);
}

}  // namespace course::cuda
