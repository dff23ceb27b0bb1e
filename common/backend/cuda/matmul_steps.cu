// The matrix product by hand, in steps, beside cuBLAS:
//
//   for (m) for (n) for (k) c[m][n] += a[m][k] * b[k][n];
//
// 2·M·N·K operations on M·K + K·N + M·N numbers: each number is needed many times, so all depends on how often it is
// fetched.
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/steps.hpp"

namespace course::cuda {

namespace {

// Step 1: a thread takes one element of c and fetches a row of a and a column of b for it. Two fetches, one
// multiply-add.
constexpr int kSide = 16;
__global__ void matmul_of_thread_kernel(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K) {
  const int64_t m = int64_t{blockIdx.y} * kSide + threadIdx.y, n = int64_t{blockIdx.x} * kSide + threadIdx.x;
  if (m >= M || n >= N) return;
  float sum = 0;
  for (int64_t k = 0; k < K; ++k) sum += a[m * K + k] * b[k * N + n];
  c[m * N + n] = sum;
}

// Step 2: a block takes a square of c and walks along K. A square of a and one of b come into shared memory together,
// and each number there is used 16 times: two fetches from memory for 16 multiply-adds, but still two from shared
// memory for one.
__global__ void matmul_in_shared_kernel(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K) {
  __shared__ float of_a[kSide][kSide], of_b[kSide][kSide];
  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t m = int64_t{blockIdx.y} * kSide + y, n = int64_t{blockIdx.x} * kSide + x;
  float sum = 0;
  for (int64_t k = 0; k < K; k += kSide) {
    of_a[y][x] = m < M && k + x < K ? a[m * K + k + x] : 0;
    of_b[y][x] = k + y < K && n < N ? b[(k + y) * N + n] : 0;
    __syncthreads();
    for (int i = 0; i < kSide; ++i) sum += of_a[y][i] * of_b[i][x];
    __syncthreads();
  }
  if (m < M && n < N) c[m * N + n] = sum;
}

// Step 3: a thread takes 8 by 8 elements of c and keeps them in registers. For each k it reads 8 numbers of a and 8 of
// b from shared memory and does 64 multiply-adds. 256 threads make a tile of 128 by 128; along K a tile is 8 deep. The
// tile of a lies with k first, so that what a thread needs for one k is two fours. A thread's eight rows (and columns)
// are two fours 64 apart, so that neighbours read neighbouring fours.
constexpr int kTile = 128, kDepth = 8, kEach = 8;
__global__ void __launch_bounds__(kThreads)
    matmul_in_registers_kernel(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K) {
  __shared__ __align__(16) float of_a[kDepth][kTile + 4], of_b[kDepth][kTile];
  const int64_t m0 = int64_t{blockIdx.y} * kTile, n0 = int64_t{blockIdx.x} * kTile;
  const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;      // of c
  const int a_row = threadIdx.x / 2, a_k = threadIdx.x % 2 * 4;             // a four of a that this thread fetches
  const int b_k = threadIdx.x / kWarp, b_column = threadIdx.x % kWarp * 4;  // and one of b
  float sums[kEach][kEach] = {};
  for (int64_t k = 0; k < K; k += kDepth) {
    const Four some_a = m0 + a_row < M ? load(a + (m0 + a_row) * K + k + a_k, K - k - a_k) : Four{};
    const Four some_b = k + b_k < K ? load(b + (k + b_k) * N + n0 + b_column, N - n0 - b_column) : Four{};
    __syncthreads();  // all have done with the tiles before
    for (int i = 0; i < 4; ++i) of_a[a_k + i][a_row] = some_a.at[i];
    *reinterpret_cast<Four*>(&of_b[b_k][b_column]) = some_b;
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      float mine_a[kEach], mine_b[kEach];
      for (int half = 0; half < 2; ++half) {
        const Four fa = *reinterpret_cast<const Four*>(&of_a[d][row + 64 * half]);
        const Four fb = *reinterpret_cast<const Four*>(&of_b[d][column + 64 * half]);
        for (int i = 0; i < 4; ++i) mine_a[4 * half + i] = fa.at[i], mine_b[4 * half + i] = fb.at[i];
      }
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) sums[i][j] += mine_a[i] * mine_b[j];
    }
  }
  for (int i = 0; i < kEach; ++i) {
    const int64_t m = m0 + row + i / 4 * 64 + i % 4;
    if (m >= M) continue;
    for (int half = 0; half < 2; ++half) {
      const int64_t n = n0 + column + 64 * half;
      Four x;
      for (int j = 0; j < 4; ++j) x.at[j] = sums[i][4 * half + j];
      store(c + m * N + n, N - n, x);
    }
  }
}

}  // namespace

void matmul_of_thread(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K, cudaStream_t stream) {
  launch(matmul_of_thread_kernel, {ceil_div(N, kSide), ceil_div(M, kSide)}, dim3(kSide, kSide), 0, stream, a, b, c, M, N, K);
}

void matmul_in_shared(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K, cudaStream_t stream) {
  launch(matmul_in_shared_kernel, {ceil_div(N, kSide), ceil_div(M, kSide)}, dim3(kSide, kSide), 0, stream, a, b, c, M, N, K);
}

void matmul_in_registers(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K,
                         cudaStream_t stream) {
  launch(matmul_in_registers_kernel, {ceil_div(N, kTile), ceil_div(M, kTile)}, kThreads, 0, stream, a, b, c, M, N, K);
}

}  // namespace course::cuda
