#include <algorithm>
#include <limits>

#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"
#include "common/bf16.hpp"

namespace course::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLowest = std::numeric_limits<float>::lowest();

}  // namespace

template <typename T>
void row_max(const T* logits, float* max, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads)
  for (int64_t n = 0; n < N; ++n) {
    const T* row = logits + at(n, columns);
    float best = -kInfinity;
#pragma omp simd reduction(max : best)
    for (int64_t c = 0; c < columns; ++c) best = float(row[c]) > best ? float(row[c]) : best;
    if (best == kLowest) {  // clang begins a maximum there, which no row of -inf, and no empty row, is above
      best = -kInfinity;
      for (int64_t c = 0; c < columns; ++c) best = std::max<float>(best, row[c]);
    }
    max[n] = best;
  }
}

template <typename T>
void row_sum_exp(const T* logits, const float* max, float* sum, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads / 4)
  for (int64_t n = 0; n < N; ++n) {
    const T* row = logits + at(n, columns);
    const float top = max[n];
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t c = 0; c < columns; ++c) total += exp(row[c] - top);
    sum[n] = top == -kInfinity ? 0 : total;
  }
}

template <typename T>
void pick(const T* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns) {
  for (int64_t n = 0; n < N; ++n) {
    const int64_t column = targets[n] - begin;
    picked[n] = column >= 0 && column < columns ? float(logits[at(n, columns, column)]) : 0;
  }
}

template <typename T>
void cross_entropy_backward(T* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads / 4)
  for (int64_t n = 0; n < N; ++n) {
    T* row = logits + at(n, columns);
    if (targets[n] == ignore) {
      std::fill_n(row, columns, T(0.0f));
      continue;
    }
    const int64_t column = targets[n] - begin;
    const bool mine = column >= 0 && column < columns;
    const float top = max[n], share = factor / sum[n], target = mine ? float(row[column]) : 0;
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) store(row[c], exp(row[c] - top) * share);
    // Of the target as it was: a probability near 1, rounded to bf16, would leave nothing of p - 1. In double, so that the
    // compiler does not fuse the difference with the product.
    const float p = exp(target - top) * share;
    if (mine) store(row[column], static_cast<float>(static_cast<double>(p) - factor));
  }
}

template void row_max(const float*, float*, int64_t, int64_t);
template void row_max(const BFloat16*, float*, int64_t, int64_t);
template void row_sum_exp(const float*, const float*, float*, int64_t, int64_t);
template void row_sum_exp(const BFloat16*, const float*, float*, int64_t, int64_t);
template void pick(const float*, const int32_t*, int64_t, float*, int64_t, int64_t);
template void pick(const BFloat16*, const int32_t*, int64_t, float*, int64_t, int64_t);
template void cross_entropy_backward(float*, const float*, const float*, const int32_t*, int64_t, int64_t, float, int64_t,
                                     int64_t);
template void cross_entropy_backward(BFloat16*, const float*, const float*, const int32_t*, int64_t, int64_t, float,
                                     int64_t, int64_t);

}  // namespace course::cpu
