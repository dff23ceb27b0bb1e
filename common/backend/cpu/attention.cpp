#include <algorithm>
#include <cmath>
#include <limits>

#include <omp.h>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"

namespace course::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kTile = 64;  // queries a tile: its scores [kTile,T] are all that is held of the matrix [S,T]

// The queries first..first+rows of one head, with the keys that the last of them sees.
struct Tile {
  int64_t first, rows, keys, sees_first;  // sees_first: how many keys the first query sees; each next one sees one more
  int64_t stride;                         // from one row of scores to the next
};

// The rows of scores are filled up to whole vectors, so that no loop over them has a tail.
int64_t whole(int64_t n) { return (n + 15) / 16 * 16; }

Tile tile(int64_t index, const AttentionSizes& z) {
  const int64_t first = index * kTile, rows = std::min(kTile, z.S - first), keys = z.T - z.S + first + rows;
  return {first, rows, keys, z.T - z.S + first + 1, whole(keys)};
}

// Scores of one query: those it does not see become -inf, up to a whole vector.
void hide(float* scores, const int32_t* attend, int64_t seen) {
  if (attend) {
#pragma omp simd
    for (int64_t j = 0; j < seen; ++j) scores[j] = attend[j] ? scores[j] : -kInfinity;
  }
  std::fill(scores + seen, scores + whole(seen), -kInfinity);
}

struct Row {
  float top, sum;
};

// Scores become exp(s - top). Gives the largest, top, and their sum. What lies beyond the keys seen becomes 0.
Row soften(float* scores, int64_t seen, int64_t stride) {
  const int64_t wide = whole(seen);
  float top = -kInfinity, sum = 0;
#pragma omp simd reduction(max : top)
  for (int64_t j = 0; j < wide; ++j) top = scores[j] > top ? scores[j] : top;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < wide; ++j) {
    scores[j] = exp(scores[j] - top);
    sum += scores[j];
  }
  std::fill(scores + wide, scores + stride, 0.0f);
  return {top, sum};
}

float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// p = exp(s - lse) in place of s, and ds = p · (dp - delta) in place of dp; 0 beyond the keys seen.
void soften_backward(float* s, float* dp, float lse, float delta, int64_t seen, int64_t stride) {
  const int64_t wide = whole(seen);
#pragma omp simd
  for (int64_t j = 0; j < wide; ++j) {
    s[j] = exp(s[j] - lse);
    dp[j] = s[j] * (dp[j] - delta);
  }
  std::fill(s + wide, s + stride, 0.0f);
  std::fill(dp + wide, dp + stride, 0.0f);
}

}  // namespace

int64_t attention_scratch(const AttentionSizes& z) { return kTile * whole(z.T); }

void attention(const float* q, const float* k, const float* v, const int32_t* attend, float* y, float* lse,
               float* scratch, const AttentionSizes& z) {
  const int64_t D = z.D, tiles = ceil_div(z.S, kTile), stride_q = z.H * D, stride_k = z.K * D;
  const float factor = 1.0f / std::sqrt(static_cast<float>(D));
#pragma omp parallel for collapse(3) schedule(dynamic) if (z.B * z.H * z.S * z.T * D > 4 * kWorthThreads)
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t h = 0; h < z.H; ++h)
      for (int64_t t = 0; t < tiles; ++t) {
        const Tile now = tile(tiles - 1 - t, z);
        const int64_t query = at(at(b, z.S, now.first), z.H, h) * D, key = at(at(b, z.T), z.K, h / (z.H / z.K)) * D;
        const int32_t* mask = attend ? attend + at(b, z.T) : nullptr;
        float* scores = scratch + at(omp_get_thread_num(), attention_scratch(z));
        gemm(now.rows, now.keys, D, factor, {q + query, stride_q}, {k + key, stride_k, true}, false, scores,
             now.stride);
        float inverse[kTile];
        for (int64_t i = 0; i < now.rows; ++i) {
          float* row = scores + at(i, now.stride);
          const int64_t seen = now.sees_first + i;
          const bool hidden = mask && !mask[seen - 1];
          hide(row, mask, seen);
          const Row r = soften(row, hidden ? 0 : seen, now.stride);
          inverse[i] = hidden ? 0 : 1.0f / r.sum;
          lse[at(at(b, z.H, h), z.S, now.first + i)] = hidden ? -kInfinity : r.top + std::log(r.sum);
        }
        gemm(now.rows, D, now.keys, 1, {scores, now.stride}, {v + key, stride_k}, false, y + query, stride_q);
        for (int64_t i = 0; i < now.rows; ++i) {
          float* out = y + query + at(i, stride_q);
#pragma omp simd
          for (int64_t d = 0; d < D; ++d) out[d] *= inverse[i];
        }
      }
}

int64_t attention_backward_scratch(const AttentionSizes& z) { return 2 * kTile * whole(z.T); }

// With p = softmax(s): dv = pᵀ·dy, dp = dy·vᵀ, ds = p·(dp - Σ p·dp), where Σ_keys p·dp = Σ_d dy·y; dq = ds·k, dk =
// dsᵀ·q. One thread does all query heads of a key/value head, so dk and dv add up in a fixed order.
void attention_backward(const float* dy, const float* q, const float* k, const float* v, const int32_t* attend,
                        const float* y, const float* lse, float* dq, float* dk, float* dv, float* scratch,
                        const AttentionSizes& z) {
  const int64_t D = z.D, tiles = ceil_div(z.S, kTile), stride_q = z.H * D, stride_k = z.K * D,
                group = z.K ? z.H / z.K : 0;
  const float factor = 1.0f / std::sqrt(static_cast<float>(D));
#pragma omp parallel for collapse(2) schedule(dynamic) if (z.B * z.H * z.S * z.T * D > 4 * kWorthThreads)
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t c = 0; c < z.K; ++c) {
      const int64_t key = at(at(b, z.T), z.K, c) * D;
      const int32_t* mask = attend ? attend + at(b, z.T) : nullptr;
      float* scores = scratch + at(omp_get_thread_num(), attention_backward_scratch(z));
      float* slopes = scores + kTile * whole(z.T);
      bool add = false;  // the last tile, which comes first, sees all keys: it overwrites dk and dv
      for (int64_t h = c * group; h < (c + 1) * group; ++h)
        for (int64_t t = tiles - 1; t >= 0; --t) {
          const Tile now = tile(t, z);
          const int64_t query = at(at(b, z.S, now.first), z.H, h) * D;
          gemm(now.rows, now.keys, D, factor, {q + query, stride_q}, {k + key, stride_k, true}, false, scores,
               now.stride);
          gemm(now.rows, now.keys, D, 1, {dy + query, stride_q}, {v + key, stride_k, true}, false, slopes, now.stride);
          for (int64_t i = 0; i < now.rows; ++i) {
            const int64_t seen = now.sees_first + i, offset = query + at(i, stride_q);
            float* row = scores + at(i, now.stride);
            const bool hidden = mask && !mask[seen - 1];
            hide(row, mask, seen);
            const float delta = dot(dy + offset, y + offset, D);
            soften_backward(row, slopes + at(i, now.stride), lse[at(at(b, z.H, h), z.S, now.first + i)], delta,
                            hidden ? 0 : seen, now.stride);
          }
          gemm(now.keys, D, now.rows, 1, {scores, now.stride, true}, {dy + query, stride_q}, add, dv + key, stride_k);
          gemm(now.keys, D, now.rows, factor, {slopes, now.stride, true}, {q + query, stride_q}, add, dk + key,
               stride_k);
          gemm(now.rows, D, now.keys, factor, {slopes, now.stride}, {k + key, stride_k}, false, dq + query, stride_q);
          add = true;
        }
      for (int64_t j = 0; j < z.T && !add; ++j) {  // no queries at all
        std::fill_n(dk + key + at(j, stride_k), D, 0.0f);
        std::fill_n(dv + key + at(j, stride_k), D, 0.0f);
      }
    }
}

}  // namespace course::cpu
