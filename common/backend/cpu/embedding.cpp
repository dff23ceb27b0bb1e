#include <algorithm>

#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"

namespace course::cpu {

template <typename T>
void embedding(const int32_t* ids, const T* table, int64_t begin, int64_t rows, T* y, int64_t N, int64_t E) {
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t n = 0; n < N; ++n) {
    const int64_t row = ids[n] - begin;
    T* out = y + at(n, E);
    if (row >= 0 && row < rows)
      std::copy_n(table + at(row, E), E, out);
    else
      std::fill_n(out, E, T(0.0f));
  }
}

// An id may stand in many rows: each thread owns columns, so the rows add in their order, without a lock.
template <typename T>
void embedding_backward(const int32_t* ids, const T* dy, int64_t begin, int64_t rows, float* dtable, int64_t N,
                        int64_t E) {
  constexpr int64_t kColumns = 64;
#pragma omp parallel for if (N * E > kWorthThreads)
  for (int64_t first = 0; first < E; first += kColumns) {
    const int64_t columns = std::min(kColumns, E - first);
    for (int64_t n = 0; n < N; ++n) {
      const int64_t row = ids[n] - begin;
      if (row < 0 || row >= rows) continue;
      float* to = dtable + at(row, E, first);
      const T* from = dy + at(n, E, first);
#pragma omp simd
      for (int64_t e = 0; e < columns; ++e) to[e] += from[e];
    }
  }
}

std::optional<int64_t> first_outside(const int32_t* ids, int64_t n, int64_t end) {
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] < 0 || ids[i] >= end) return i;
  return std::nullopt;
}

template void embedding(const int32_t*, const float*, int64_t, int64_t, float*, int64_t, int64_t);
template void embedding(const int32_t*, const BFloat16*, int64_t, int64_t, BFloat16*, int64_t, int64_t);
template void embedding_backward(const int32_t*, const float*, int64_t, int64_t, float*, int64_t, int64_t);
template void embedding_backward(const int32_t*, const BFloat16*, int64_t, int64_t, float*, int64_t, int64_t);

}  // namespace course::cpu
