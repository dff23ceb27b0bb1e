// Rows of a table picked by ids, and their gradient.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (n) y[n] = begin <= ids[n] < begin + rows ? table[ids[n] - begin] : 0;          a block a row of y
template <typename T>
__global__ void embedding_kernel(const int32_t* ids, const T* table, int64_t begin, int64_t rows, T* y, int64_t E) {
  const int64_t row = ids[blockIdx.x] - begin;
  const bool ours = row >= 0 && row < rows;
  T* const out = y + blockIdx.x * E;
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x)
    store(out + e, E - e, ours ? load(table + row * E + e, E - e) : Four{});
}

// The gradient adds row n of dy to row ids[n] of the table. The same id may stand in many places: if each place added
// when its turn comes, two could add to one number at once, and an atomic add would give another sum each time. So each
// row of the table has one block that adds to it, in the order of the places:
//
//   for (n) if (ids[n] is a row of this block) dtable[ids[n] - begin] += dy[n];
//
// A block has every gridDim-th row. It looks through all ids, 256 at a time, a thread an id; a warp's ballot says by 32
// bits which of its ids are the block's.
template <typename T>
__global__ void embedding_backward_kernel(const int32_t* ids, const T* dy, int64_t begin, int64_t rows, float* dtable,
                                          int64_t N, int64_t E) {
  __shared__ unsigned found[kThreads / kWarp];
  for (int64_t first = 0; first < N; first += kThreads) {
    const int64_t n = first + threadIdx.x, row = n < N ? ids[n] - begin : -1;
    const bool ours = row >= 0 && row < rows && static_cast<unsigned>(row) % gridDim.x == blockIdx.x;
    const unsigned bits = __ballot_sync(kAllLanes, ours);
    if (threadIdx.x % kWarp == 0) found[threadIdx.x / kWarp] = bits;
    __syncthreads();
    for (int warp = 0; warp < kThreads / kWarp; ++warp)
      for (unsigned left = found[warp]; left; left &= left - 1) {  // without the lowest bit
        const int64_t place = first + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
        const T* const from = dy + place * E;
        float* const to = dtable + (ids[place] - begin) * E;
        for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * kThreads) {
          Four sum = load(to + e, E - e);
          const Four d = load(from + e, E - e);
          for (int j = 0; j < 4; ++j) sum.at[j] += d.at[j];
          store(to + e, E - e, sum);
        }
      }
    __syncthreads();  // all have read which: the next may be written
  }
}

//   for (i) if (ids[i] < 0 || ids[i] >= end) return i;
//   return n;          one block: a batch has thousands of ids, not millions
__global__ void first_outside_kernel(const int32_t* ids, int64_t n, int64_t end, int64_t* index) {
  int64_t found = n;
  for (int64_t i = threadIdx.x; i < n && found == n; i += blockDim.x)
    if (ids[i] < 0 || ids[i] >= end) found = i;
  found = block_reduce(found, Min());
  if (threadIdx.x == 0) *index = found;
}

}  // namespace

template <typename T>
void embedding(const int32_t* ids, const T* table, int64_t begin, int64_t rows, T* y, int64_t N, int64_t E,
               cudaStream_t stream) {
  launch(embedding_kernel<T>, N, threads_for_row(E), 0, stream, ids, table, begin, rows, y, E);
}

template <typename T>
void embedding_backward(const int32_t* ids, const T* dy, int64_t begin, int64_t rows, float* dtable, int64_t N,
                        int64_t E, cudaStream_t stream) {
  constexpr int64_t kMostBlocks = 256;  // enough to keep a card's memory busy, few enough to look through all ids
  launch(embedding_backward_kernel<T>, std::min({rows, N, kMostBlocks}), kThreads, 0, stream, ids, dy, begin, rows,
         dtable, N, E);
}

template void embedding(const int32_t*, const float*, int64_t, int64_t, float*, int64_t, int64_t, cudaStream_t);
template void embedding(const int32_t*, const bf16*, int64_t, int64_t, bf16*, int64_t, int64_t, cudaStream_t);
template void embedding_backward(const int32_t*, const float*, int64_t, int64_t, float*, int64_t, int64_t,
                                 cudaStream_t);
template void embedding_backward(const int32_t*, const bf16*, int64_t, int64_t, float*, int64_t, int64_t, cudaStream_t);

void first_outside(const int32_t* ids, int64_t n, int64_t end, int64_t* index, cudaStream_t stream) {
  launch(first_outside_kernel, 1, kThreads, 0, stream, ids, n, end, index);
}

}  // namespace course::cuda
