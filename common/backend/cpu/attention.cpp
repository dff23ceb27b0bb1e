#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <omp.h>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cpu/index.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"
#include "common/backend/cpu/simd_math.hpp"
#include "common/bf16.hpp"

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

template <typename T>
float dot(const T* a, const T* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += float(a[i]) * float(b[i]);
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

// Products are computed in f32. What lies in memory as f32 is read and written in place; a bf16 block [rows,D] goes through
// `room`, of as many floats.
Matrix read(const float* x, int64_t stride, int64_t, int64_t, float*) { return {x, stride}; }
Matrix read(const BFloat16* x, int64_t stride, int64_t rows, int64_t D, float* room) {
  for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) store(room[i * D + d], x[i * stride + d]);
  return {room, D};
}

struct Block {
  float* data;
  int64_t stride;
};
Block written(float* x, int64_t stride, int64_t, float*) { return {x, stride}; }
Block written(BFloat16*, int64_t, int64_t D, float* room) { return {room, D}; }

void write(const Block&, float*, int64_t, int64_t, int64_t) {}
void write(const Block& from, BFloat16* x, int64_t stride, int64_t rows, int64_t D) {
  for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) store(x[i * stride + d], from.data[i * from.stride + d]);
}

Matrix transposed(Matrix m) { return {m.data, m.stride, !m.transposed}; }

// Floats of room for blocks of kTile queries and of T keys.
template <typename T>
int64_t room(int64_t of_queries, int64_t of_keys, const AttentionSizes& z) {
  return std::is_same_v<T, float> ? 0 : (of_queries * kTile + of_keys * z.T) * z.D;
}

}  // namespace

template <typename T>
int64_t attention_scratch(const AttentionSizes& z) {
  return kTile * whole(z.T) + room<T>(2, 2, z);
}

template <typename T>
void attention(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse, float* scratch,
               const AttentionSizes& z) {
  const int64_t D = z.D, tiles = ceil_div(z.S, kTile), stride_q = z.H * D, stride_k = z.K * D;
  const float factor = 1.0f / std::sqrt(static_cast<float>(D));
#pragma omp parallel for collapse(3) schedule(dynamic) if (z.B * z.H * z.S * z.T * D > 4 * kWorthThreads)
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t h = 0; h < z.H; ++h)
      for (int64_t t = 0; t < tiles; ++t) {
        const Tile now = tile(tiles - 1 - t, z);
        const int64_t query = at(at(b, z.S, now.first), z.H, h) * D, key = at(at(b, z.T), z.K, h / (z.H / z.K)) * D;
        const int32_t* mask = attend ? attend + at(b, z.T) : nullptr;
        float* scores = scratch + at(omp_get_thread_num(), attention_scratch<T>(z));
        float *room_q = scores + kTile * whole(z.T), *room_y = room_q + kTile * D, *room_k = room_y + kTile * D,
              *room_v = room_k + z.T * D;
        const Matrix queries = read(q + query, stride_q, now.rows, D, room_q);
        const Matrix keys = read(k + key, stride_k, now.keys, D, room_k);
        const Matrix values = read(v + key, stride_k, now.keys, D, room_v);
        const Block out = written(y + query, stride_q, D, room_y);
        gemm(now.rows, now.keys, D, factor, queries, transposed(keys), false, scores, now.stride);
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
        gemm(now.rows, D, now.keys, 1, {scores, now.stride}, values, false, out.data, out.stride);
        for (int64_t i = 0; i < now.rows; ++i) {
          float* row = out.data + at(i, out.stride);
#pragma omp simd
          for (int64_t d = 0; d < D; ++d) row[d] *= inverse[i];
        }
        write(out, y + query, stride_q, now.rows, D);
      }
}

template <typename T>
int64_t attention_backward_scratch(const AttentionSizes& z) {
  return 2 * kTile * whole(z.T) + room<T>(3, 4, z);
}

// With p = softmax(s): dv = pᵀ·dy, dp = dy·vᵀ, ds = p·(dp - Σ p·dp), where Σ_keys p·dp = Σ_d dy·y; dq = ds·k, dk =
// dsᵀ·q. One thread does all query heads of a key/value head, so dk and dv add up in a fixed order.
template <typename T>
void attention_backward(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const T* y,
                        const float* lse, T* dq, T* dk, T* dv, float* scratch, const AttentionSizes& z) {
  const int64_t D = z.D, tiles = ceil_div(z.S, kTile), stride_q = z.H * D, stride_k = z.K * D,
                group = z.K ? z.H / z.K : 0;
  const float factor = 1.0f / std::sqrt(static_cast<float>(D));
#pragma omp parallel for collapse(2) schedule(dynamic) if (z.B * z.H * z.S * z.T * D > 4 * kWorthThreads)
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t c = 0; c < z.K; ++c) {
      const int64_t key = at(at(b, z.T), z.K, c) * D;
      const int32_t* mask = attend ? attend + at(b, z.T) : nullptr;
      float* scores = scratch + at(omp_get_thread_num(), attention_backward_scratch<T>(z));
      float* slopes = scores + kTile * whole(z.T);
      float *room_q = slopes + kTile * whole(z.T), *room_dy = room_q + kTile * D, *room_dq = room_dy + kTile * D,
            *room_k = room_dq + kTile * D, *room_v = room_k + z.T * D, *room_dk = room_v + z.T * D,
            *room_dv = room_dk + z.T * D;
      const Matrix keys = read(k + key, stride_k, z.T, D, room_k), values = read(v + key, stride_k, z.T, D, room_v);
      const Block dkeys = written(dk + key, stride_k, D, room_dk), dvalues = written(dv + key, stride_k, D, room_dv);
      bool add = false;  // the last tile, which comes first, sees all keys: it overwrites dk and dv
      for (int64_t h = c * group; h < (c + 1) * group; ++h)
        for (int64_t t = tiles - 1; t >= 0; --t) {
          const Tile now = tile(t, z);
          const int64_t query = at(at(b, z.S, now.first), z.H, h) * D;
          const Matrix queries = read(q + query, stride_q, now.rows, D, room_q);
          const Matrix slope = read(dy + query, stride_q, now.rows, D, room_dy);
          const Block dqueries = written(dq + query, stride_q, D, room_dq);
          gemm(now.rows, now.keys, D, factor, queries, transposed(keys), false, scores, now.stride);
          gemm(now.rows, now.keys, D, 1, slope, transposed(values), false, slopes, now.stride);
          for (int64_t i = 0; i < now.rows; ++i) {
            const int64_t seen = now.sees_first + i, offset = query + at(i, stride_q);
            float* row = scores + at(i, now.stride);
            const bool hidden = mask && !mask[seen - 1];
            hide(row, mask, seen);
            const float delta = dot(dy + offset, y + offset, D);
            soften_backward(row, slopes + at(i, now.stride), lse[at(at(b, z.H, h), z.S, now.first + i)], delta,
                            hidden ? 0 : seen, now.stride);
          }
          gemm(now.keys, D, now.rows, 1, {scores, now.stride, true}, slope, add, dvalues.data, dvalues.stride);
          gemm(now.keys, D, now.rows, factor, {slopes, now.stride, true}, queries, add, dkeys.data, dkeys.stride);
          gemm(now.rows, D, now.keys, factor, {slopes, now.stride}, keys, false, dqueries.data, dqueries.stride);
          write(dqueries, dq + query, stride_q, now.rows, D);
          add = true;
        }
      for (int64_t j = 0; j < z.T && !add; ++j) {  // no queries at all
        std::fill_n(dkeys.data + at(j, dkeys.stride), D, 0.0f);
        std::fill_n(dvalues.data + at(j, dvalues.stride), D, 0.0f);
      }
      write(dkeys, dk + key, stride_k, z.T, D);
      write(dvalues, dv + key, stride_k, z.T, D);
    }
}

template int64_t attention_scratch<float>(const AttentionSizes&);
template int64_t attention_scratch<BFloat16>(const AttentionSizes&);
template int64_t attention_backward_scratch<float>(const AttentionSizes&);
template int64_t attention_backward_scratch<BFloat16>(const AttentionSizes&);
template void attention(const float*, const float*, const float*, const int32_t*, float*, float*, float*,
                        const AttentionSizes&);
template void attention(const BFloat16*, const BFloat16*, const BFloat16*, const int32_t*, BFloat16*, float*, float*,
                        const AttentionSizes&);
template void attention_backward(const float*, const float*, const float*, const float*, const int32_t*, const float*,
                                 const float*, float*, float*, float*, float*, const AttentionSizes&);
template void attention_backward(const BFloat16*, const BFloat16*, const BFloat16*, const BFloat16*, const int32_t*,
                                 const BFloat16*, const float*, BFloat16*, BFloat16*, BFloat16*, float*,
                                 const AttentionSizes&);

}  // namespace course::cpu
