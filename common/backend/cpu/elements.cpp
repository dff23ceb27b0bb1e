#include <algorithm>
#include <array>
#include <cstring>

#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/bf16.hpp"

namespace course::cpu {

void copy_bytes(const void* from, void* to, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 18;
#pragma omp parallel for if (bytes > 2 * kPiece)
  for (int64_t begin = 0; begin < bytes; begin += kPiece)
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                std::min(kPiece, bytes - begin));
}

void copy_blocks(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t blocks, int64_t block) {
  if (blocks == 1) return copy_bytes(from, to, block);
#pragma omp parallel for if (blocks * block > 4 * kWorthThreads)
  for (int64_t i = 0; i < blocks; ++i) std::memcpy(to + i * to_step, from + i * from_step, block);
}

template <typename T>
void fill(T* x, int64_t n, float value) {
#pragma omp parallel for simd if (n > kWorthThreads)
  for (int64_t i = 0; i < n; ++i) store(x[i], value);
}

template <typename X, typename Y>
void cast(const X* x, Y* y, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads)
  for (int64_t i = 0; i < n; ++i) store(y[i], x[i]);
}

template <typename X, typename Y>
void add(X* x, const Y* y, int64_t n) {
#pragma omp parallel for simd if (n > kWorthThreads)
  for (int64_t i = 0; i < n; ++i) store(x[i], x[i] + y[i]);
}

template <typename T>
void scale(T* x, int64_t n, float factor) {
#pragma omp parallel for simd if (n > kWorthThreads)
  for (int64_t i = 0; i < n; ++i) store(x[i], x[i] * factor);
}

template <typename T>
double squared_norm(const T* x, int64_t n) {
  std::array<double, kSumBlocks> partial = {};
  const int64_t block = ceil_div(n, kSumBlocks);
#pragma omp parallel for if (n > kWorthThreads)
  for (int64_t b = 0; b < kSumBlocks; ++b) {
    const int64_t begin = std::min(n, b * block), end = std::min(n, begin + block);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    partial[b] = sum;
  }
  double total = 0;
  for (double sum : partial) total += sum;
  return total;
}

template <typename T>
void add_bias(T* y, const T* bias, int64_t N, int64_t E) {
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t n = 0; n < N; ++n) {
    T* row = y + at(n, E);
#pragma omp simd
    for (int64_t e = 0; e < E; ++e) store(row[e], row[e] + bias[e]);
  }
}

// Each thread owns columns, so each sum runs over the rows in order.
template <typename T>
void sum_rows(const T* dy, float* dbias, int64_t N, int64_t E) {
  constexpr int64_t kColumns = 64;
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t begin = 0; begin < E; begin += kColumns) {
    const int64_t columns = std::min(kColumns, E - begin);
    float sum[kColumns] = {};
    for (int64_t n = 0; n < N; ++n) {
      const T* row = dy + at(n, E, begin);
#pragma omp simd
      for (int64_t e = 0; e < columns; ++e) sum[e] += row[e];
    }
    for (int64_t e = 0; e < columns; ++e) dbias[begin + e] += sum[e];
  }
}

template void cast(const float*, BFloat16*, int64_t);
template void cast(const BFloat16*, float*, int64_t);
template void add(float*, const float*, int64_t);
template void add(float*, const BFloat16*, int64_t);
template void add(BFloat16*, const BFloat16*, int64_t);
template void fill(float*, int64_t, float);
template void fill(BFloat16*, int64_t, float);
template void scale(float*, int64_t, float);
template void scale(BFloat16*, int64_t, float);
template double squared_norm(const float*, int64_t);
template double squared_norm(const BFloat16*, int64_t);
template void add_bias(float*, const float*, int64_t, int64_t);
template void add_bias(BFloat16*, const BFloat16*, int64_t, int64_t);
template void sum_rows(const float*, float*, int64_t, int64_t);
template void sum_rows(const BFloat16*, float*, int64_t, int64_t);

}  // namespace course::cpu
