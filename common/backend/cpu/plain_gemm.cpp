#include "common/backend/cpu/plain_gemm.hpp"

#include <algorithm>
#include <vector>

#include "common/backend/cpu/parallel.hpp"

namespace course::cpu {

namespace {

// A tile of c of kRows x kColumns stays in registers while a block of kDepth of K runs by. b is packed once a block, in
// panels of kColumns, a once a tile row: both are then read in order.
constexpr int64_t kRows = 6, kColumns = 32, kDepth = 256;

struct Tile {
  float c[kRows][kColumns];
};

template <typename T>
float element(const MatrixOf<T>& m, int64_t row, int64_t column) {
  return m.transposed ? m.data[column * m.stride + row] : m.data[row * m.stride + column];
}

// packed [depth,kColumns] = b[k.., n..], zeros beyond `columns`
template <typename T>
void pack_columns(const MatrixOf<T>& b, int64_t k, int64_t depth, int64_t n, int64_t columns, float* packed) {
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t j = 0; j < kColumns; ++j) packed[d * kColumns + j] = j < columns ? element(b, k + d, n + j) : 0;
}

// packed [depth,kRows] = factor · a[m.., k..], zeros beyond `rows`
template <typename T>
void pack_rows(const MatrixOf<T>& a, int64_t m, int64_t rows, int64_t k, int64_t depth, float factor, float* packed) {
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t i = 0; i < kRows; ++i) packed[d * kRows + i] = i < rows ? factor * element(a, m + i, k + d) : 0;
}

Tile multiply(const float* a, const float* b, int64_t depth) {
  Tile t = {};
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t i = 0; i < kRows; ++i) {
      const float x = a[d * kRows + i];
#pragma omp simd
      for (int64_t j = 0; j < kColumns; ++j) t.c[i][j] += x * b[d * kColumns + j];
    }
  return t;
}

void store(const Tile& t, int64_t rows, int64_t columns, bool add, float* c, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) c[i * stride + j] = (add ? c[i * stride + j] : 0) + t.c[i][j];
}

template <typename T>
void multiply(int64_t M, int64_t N, int64_t K, float factor, MatrixOf<T> a, MatrixOf<T> b, bool add, float* c,
              int64_t stride_c) {
  if (K == 0 && !add)
    for (int64_t m = 0; m < M; ++m) std::fill_n(c + m * stride_c, N, 0.0f);
  if (M == 0 || N == 0 || K == 0) return;
  const int64_t panels = ceil_div(N, kColumns), rows = ceil_div(M, kRows);
  thread_local std::vector<float> keep;
  keep.resize(std::max<size_t>(keep.size(), panels * kColumns * kDepth));
  float* const packed = keep.data();
  for (int64_t k = 0; k < K; k += kDepth) {
    const int64_t depth = std::min(kDepth, K - k);
    const bool adds = add || k > 0;
#pragma omp parallel if (M * N * depth > 32 * kWorthThreads)
    {
#pragma omp for
      for (int64_t p = 0; p < panels; ++p)
        pack_columns(b, k, depth, p * kColumns, std::min(kColumns, N - p * kColumns), packed + p * kColumns * depth);
#pragma omp for
      for (int64_t r = 0; r < rows; ++r) {
        float strip[kRows * kDepth];
        const int64_t m = r * kRows, height = std::min(kRows, M - m);
        pack_rows(a, m, height, k, depth, factor, strip);
        for (int64_t p = 0; p < panels; ++p) {
          const int64_t n = p * kColumns;
          const Tile t = multiply(strip, packed + p * kColumns * depth, depth);
          store(t, height, std::min(kColumns, N - n), adds, c + m * stride_c + n, stride_c);
        }
      }
    }
  }
}

}  // namespace

void plain_gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c,
                int64_t stride_c) {
  multiply(M, N, K, factor, a, b, add, c, stride_c);
}

void plain_gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, float* c, int64_t stride_c) {
  multiply(M, N, K, 1, a, b, add, c, stride_c);
}

// In f32 first: c itself would round after each block of K.
void plain_gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, BFloat16* c, int64_t stride_c) {
  std::vector<float> sums(M * N);
  for (int64_t m = 0; m < M && add; ++m) std::copy_n(c + m * stride_c, N, sums.begin() + m * N);
  multiply(M, N, K, 1, a, b, add, sums.data(), N);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) c[m * stride_c + n] = BFloat16(sums[m * N + n]);
}

}  // namespace course::cpu
