#include <algorithm>
#include <limits>

#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"

namespace course::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLowest = std::numeric_limits<float>::lowest();

}  // namespace

void row_max(const float* logits, float* max, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads)
  for (int64_t n = 0; n < N; ++n) {
    const float* row = logits + at(n, columns);
    float best = -kInfinity;
#pragma omp simd reduction(max : best)
    for (int64_t c = 0; c < columns; ++c) best = row[c] > best ? row[c] : best;
    if (best == kLowest) {  // clang begins a maximum there, which no row of -inf, and no empty row, is above
      best = -kInfinity;
      for (int64_t c = 0; c < columns; ++c) best = std::max(best, row[c]);
    }
    max[n] = best;
  }
}

void row_sum_exp(const float* logits, const float* max, float* sum, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads / 4)
  for (int64_t n = 0; n < N; ++n) {
    const float* row = logits + at(n, columns);
    const float top = max[n];
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t c = 0; c < columns; ++c) total += exp(row[c] - top);
    sum[n] = top == -kInfinity ? 0 : total;
  }
}

void pick(const float* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns) {
  for (int64_t n = 0; n < N; ++n) {
    const int64_t column = targets[n] - begin;
    picked[n] = column >= 0 && column < columns ? logits[at(n, columns, column)] : 0;
  }
}

void cross_entropy_backward(float* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns) {
#pragma omp parallel for if (N * columns > kWorthThreads / 4)
  for (int64_t n = 0; n < N; ++n) {
    float* row = logits + at(n, columns);
    if (targets[n] == ignore) {
      std::fill_n(row, columns, 0.0f);
      continue;
    }
    const float top = max[n], share = factor / sum[n];
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) row[c] = exp(row[c] - top) * share;
    const int64_t column = targets[n] - begin;
    if (column >= 0 && column < columns) row[column] -= factor;
  }
}

}  // namespace course::cpu
