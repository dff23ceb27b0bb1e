// Causal attention whose memory is linear in the number of keys. Dao et al., arXiv:2205.14135
//
// The matrix of scores, S by T, is never whole. A block keeps some queries and walks over the keys, a tile at a time;
// of what it has seen it keeps each query's largest score, the sum of exponentials and the weighted sum of values. When
// a larger score turns up, the two sums shrink by exp(old - new): the online softmax.
//
//   for (b) for (h) for (i < S) {
//     for (j <= T - S + i) if (seen) score[j] = dot(q[b][i][h], k[b][j][h / group]) / sqrt(D);
//     lse[b][h][i] = log(sum of exp(score[j]));
//     y[b][i][h] = sum of exp(score[j] - lse) * v[b][j][h / group];
//   }
//
// Backward computes the scores again, since lse is all it needs to have the weights p at once. With dp = dy·v and
// delta = Σ_j p·dp = Σ_d dy·y: ds = p·(dp - delta), dq = Σ_j ds·k, dk = Σ_i ds·q, dv = Σ_i p·dy. One kernel keeps
// queries and walks over keys for dq, another keeps keys and walks over queries for dk and dv, so that nothing is added
// from two sides.
//
// Queries, keys, values and their gradients are f32 or bf16 in memory; a tile of them and all that is computed is f32.
#include "common/backend/cuda/block_reduce.cuh"
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

extern __shared__ __align__(16) float shared[];

namespace {

constexpr float kInfinity = __builtin_huge_valf();

// How a block cuts its work, for heads of up to D: its threads stand in kRows rows of kCols. It keeps kOwn rows
// (queries, or keys in the kernel of dk and dv) and walks over others, kOther at a time. Of the scores [kOwn,kOther] a
// thread computes R by J, of the sums [kOwn,D] it keeps R by C; more to compute from what it has read, the less it
// waits for memory.
template <int D, int R_, int J_>
struct Cut {
  static constexpr int kD = D, R = R_, J = J_;
  // A row's threads are neighbours in one warp: what they tell each other (maxima, sums, weights) waits for no other warp.
  static constexpr int kCols = D / 4 < 16 ? D / 4 : 16, kRows = 16, kBlock = kRows * kCols, C = D / kCols;
  static constexpr int kOwn = kRows * R, kOther = kCols * J;
  // Floats from one row of a tile to the next. With four more than the row needs, eight threads that read four floats
  // each of eight rows meet all 32 banks of shared memory once.
  static constexpr int kStride = D + 4, kWeightStride = kOther + 4;
  static constexpr int kOwnTile = kOwn * kStride, kOtherTile = kOther * kStride, kWeights = kOwn * kWeightStride;
  static_assert(kWarp % kCols == 0 && kBlock % kWarp == 0);
};

// Rows of a head from memory to a tile of `count` rows. What is beyond the rows there are, or beyond the head, becomes
// 0.
template <typename Z, typename T>
__device__ void load_tile(const T* from, int64_t step, int64_t rows, int64_t head, int count, float* tile) {
  constexpr int kFours = Z::kD / 4;
  for (int i = threadIdx.x; i < count * kFours; i += Z::kBlock) {
    const int row = i / kFours, d = i % kFours * 4;
    const Four x = row < rows ? load(from + row * step + d, head - d) : Four{};
    *reinterpret_cast<Four*>(tile + row * Z::kStride + d) = x;
  }
}

__device__ inline Four four_at(const float* tile) { return *reinterpret_cast<const Four*>(tile); }

//   for (i < R) for (j < J) products[i][j] = dot(own[row + i·kRows], other[col + j·kCols]);
template <typename Z>
__device__ void dot_rows(const float* own, const float* other, float (&products)[Z::R][Z::J]) {
  own += threadIdx.x / Z::kCols * Z::kStride;
  other += threadIdx.x % Z::kCols * Z::kStride;
  for (int i = 0; i < Z::R; ++i)
    for (int j = 0; j < Z::J; ++j) products[i][j] = 0;
  for (int d = 0; d < Z::kD; d += 4) {
    Four a[Z::R], b[Z::J];
    for (int i = 0; i < Z::R; ++i) a[i] = four_at(own + i * Z::kRows * Z::kStride + d);
    for (int j = 0; j < Z::J; ++j) b[j] = four_at(other + j * Z::kCols * Z::kStride + d);
    for (int i = 0; i < Z::R; ++i)
      for (int j = 0; j < Z::J; ++j)
        for (int e = 0; e < 4; ++e) products[i][j] += a[i].at[e] * b[j].at[e];
  }
}

// A thread's columns of a head are fours, kCols fours apart: c is column 4·col + 4·kCols·(c / 4) + c % 4.
template <typename Z>
__device__ int column_of(int c) {
  return 4 * (threadIdx.x % Z::kCols) + 4 * Z::kCols * (c / 4);
}

//   for (i < R) for (c < C) sums[i][c] += Σ_j weights[row + i·kRows][j] * other[j][column c];
template <typename Z>
__device__ void add_weighted(const float* weights, const float* other, float (&sums)[Z::R][Z::C]) {
  weights += threadIdx.x / Z::kCols * Z::kWeightStride;
  for (int j = 0; j < Z::kOther; j += 4) {
    Four w[Z::R];
    for (int i = 0; i < Z::R; ++i) w[i] = four_at(weights + i * Z::kRows * Z::kWeightStride + j);
    for (int e = 0; e < 4; ++e)
      for (int c = 0; c < Z::C; c += 4) {
        const Four x = four_at(other + (j + e) * Z::kStride + column_of<Z>(c));
        for (int i = 0; i < Z::R; ++i)
          for (int f = 0; f < 4; ++f) sums[i][c + f] += w[i].at[e] * x.at[f];
      }
  }
}

//   for (i < R) for (c < C) to[row + i·kRows][column c] = sums[i][c] * factor[i];
template <typename Z, typename T>
__device__ void store_rows(T* to, int64_t step, int64_t rows, int64_t head, const float (&sums)[Z::R][Z::C],
                           const float (&factor)[Z::R]) {
  const int row = threadIdx.x / Z::kCols;
  for (int i = 0; i < Z::R; ++i)
    for (int c = 0; c < Z::C; c += 4) {
      Four x;
      for (int f = 0; f < 4; ++f) x.at[f] = sums[i][c + f] * factor[i];
      const int d = column_of<Z>(c);
      if (row + i * Z::kRows < rows) store(to + (row + i * Z::kRows) * step + d, head - d, x);
    }
}

template <typename Z>
__device__ float& weight_at(float* weights, int i, int j) {
  return weights[(threadIdx.x / Z::kCols + i * Z::kRows) * Z::kWeightStride + threadIdx.x % Z::kCols + j * Z::kCols];
}

// Whether query i of a sequence sees key j. `attend` is the sequence's own, or null.
__device__ inline bool sees(int64_t i, int64_t j, const int32_t* attend, const AttentionSizes& z) {
  const int64_t stands = z.T - z.S + i;
  return i < z.S && j <= stands && (!attend || (attend[j] && attend[stands]));
}

// A head of D = 0 has scores of 0.
__device__ inline float score_factor(const AttentionSizes& z) {
  return z.D ? 1.0f / sqrtf(static_cast<float>(z.D)) : 0;
}

// Where things lie. h of H heads is query head; its keys and values are those of h / (H/K).
__device__ inline int64_t query_at(int64_t b, int64_t i, int64_t h, const AttentionSizes& z) {
  return ((b * z.S + i) * z.H + h) * z.D;
}
__device__ inline int64_t key_at(int64_t b, int64_t j, int64_t c, const AttentionSizes& z) {
  return ((b * z.T + j) * z.K + c) * z.D;
}

template <typename Z, typename T>
__global__ void __launch_bounds__(Z::kBlock)
    attention_kernel(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse, AttentionSizes z) {
  float *const queries = shared, *const keys = queries + Z::kOwnTile, *const values = keys + Z::kOtherTile,
               *const weights = values + Z::kOtherTile;
  const int row = threadIdx.x / Z::kCols, col = threadIdx.x % Z::kCols;
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * Z::kOwn;  // the last queries see most: they start first
  const int64_t h = blockIdx.y, b = blockIdx.z, c = h / (z.H / z.K), rows = z.S - first;
  const int64_t most = z.T - z.S + first + Z::kOwn, end = most < z.T ? most : z.T;  // keys that some query here sees
  const float factor = score_factor(z);
  if (attend) attend += b * z.T;
  load_tile<Z>(q + query_at(b, first, h, z), z.H * z.D, rows, z.D, Z::kOwn, queries);
  float out[Z::R][Z::C] = {}, top[Z::R], sum[Z::R] = {};
  for (float& t : top) t = -kInfinity;
  for (int64_t j = 0; j < end; j += Z::kOther) {
    __syncthreads();  // all have done with the tile before
    load_tile<Z>(k + key_at(b, j, c, z), z.K * z.D, z.T - j, z.D, Z::kOther, keys);
    load_tile<Z>(v + key_at(b, j, c, z), z.K * z.D, z.T - j, z.D, Z::kOther, values);
    __syncthreads();
    float s[Z::R][Z::J];
    dot_rows<Z>(queries, keys, s);
    for (int i = 0; i < Z::R; ++i) {
      const int64_t query = first + row + i * Z::kRows;
      float best = top[i], part = 0;
      for (int n = 0; n < Z::J; ++n) {
        s[i][n] = sees(query, j + col + n * Z::kCols, attend, z) ? s[i][n] * factor : -kInfinity;
        best = fmaxf(best, s[i][n]);
      }
      best = warp_reduce(best, Max(), Z::kCols);
      const float base = best == -kInfinity ? 0 : best, shrink = expf(top[i] - base);
      for (float& p : s[i]) {
        p = expf(p - base);
        part += p;
      }
      sum[i] = sum[i] * shrink + warp_reduce(part, Sum(), Z::kCols);
      for (int n = 0; n < Z::J; ++n) weight_at<Z>(weights, i, n) = s[i][n];
      for (float& o : out[i]) o *= shrink;
      top[i] = best;
    }
    __syncwarp();
    add_weighted<Z>(weights, values, out);
  }
  float inverse[Z::R];
  for (int i = 0; i < Z::R; ++i) {
    const int64_t query = first + row + i * Z::kRows;
    const bool sees_itself = sees(query, z.T - z.S + query, attend, z);  // if not, it sees nothing
    inverse[i] = sees_itself ? 1.0f / sum[i] : 0;
    if (col == 0 && query < z.S) lse[(b * z.H + h) * z.S + query] = sees_itself ? top[i] + logf(sum[i]) : -kInfinity;
  }
  store_rows<Z>(y + query_at(b, first, h, z), z.H * z.D, rows, z.D, out, inverse);
}

//   for (b) for (h) for (i) delta[b][h][i] = dot(dy[b][i][h], y[b][i][h]);          a warp a dot product
template <typename T>
__global__ void delta_kernel(const T* dy, const T* y, float* delta, AttentionSizes z) {
  for (int64_t n = first_index() / kWarp; n < z.B * z.S * z.H; n += index_step() / kWarp) {
    float sum = 0;
    for (int64_t d = threadIdx.x % kWarp; d < z.D; d += kWarp) sum += wide(dy[n * z.D + d]) * wide(y[n * z.D + d]);
    sum = warp_reduce(sum, Sum());
    const int64_t h = n % z.H, i = n / z.H % z.S, b = n / z.H / z.S;
    if (threadIdx.x % kWarp == 0) delta[(b * z.H + h) * z.S + i] = sum;
  }
}

template <typename Z, typename T>
__global__ void __launch_bounds__(Z::kBlock)
    attention_dq_kernel(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const float* lse,
                        const float* delta, T* dq, AttentionSizes z) {
  float *const queries = shared, *const slopes = queries + Z::kOwnTile, *const keys = slopes + Z::kOwnTile,
               *const values = keys + Z::kOtherTile, *const weights = values + Z::kOtherTile;
  const int row = threadIdx.x / Z::kCols, col = threadIdx.x % Z::kCols;
  const int64_t first = int64_t{gridDim.x - 1 - blockIdx.x} * Z::kOwn;
  const int64_t h = blockIdx.y, b = blockIdx.z, c = h / (z.H / z.K), rows = z.S - first;
  const int64_t most = z.T - z.S + first + Z::kOwn, end = most < z.T ? most : z.T;
  const float factor = score_factor(z);
  if (attend) attend += b * z.T;
  load_tile<Z>(q + query_at(b, first, h, z), z.H * z.D, rows, z.D, Z::kOwn, queries);
  load_tile<Z>(dy + query_at(b, first, h, z), z.H * z.D, rows, z.D, Z::kOwn, slopes);
  float sums[Z::R][Z::C] = {}, lse_of[Z::R], delta_of[Z::R], factors[Z::R];
  for (int i = 0; i < Z::R; ++i) {
    const int64_t query = first + row + i * Z::kRows, at = (b * z.H + h) * z.S + query;
    lse_of[i] = query < z.S ? lse[at] : 0;
    delta_of[i] = query < z.S ? delta[at] : 0;
    factors[i] = factor;
  }
  for (int64_t j = 0; j < end; j += Z::kOther) {
    __syncthreads();
    load_tile<Z>(k + key_at(b, j, c, z), z.K * z.D, z.T - j, z.D, Z::kOther, keys);
    load_tile<Z>(v + key_at(b, j, c, z), z.K * z.D, z.T - j, z.D, Z::kOther, values);
    __syncthreads();
    float s[Z::R][Z::J], dp[Z::R][Z::J];
    dot_rows<Z>(queries, keys, s);
    dot_rows<Z>(slopes, values, dp);
    for (int i = 0; i < Z::R; ++i)
      for (int n = 0; n < Z::J; ++n) {
        const bool seen = sees(first + row + i * Z::kRows, j + col + n * Z::kCols, attend, z);
        weight_at<Z>(weights, i, n) = seen ? expf(s[i][n] * factor - lse_of[i]) * (dp[i][n] - delta_of[i]) : 0;
      }
    __syncwarp();
    add_weighted<Z>(weights, keys, sums);
  }
  store_rows<Z>(dq + query_at(b, first, h, z), z.H * z.D, rows, z.D, sums, factors);
}

// All query heads that share a key head, one after another: their sums have one order.
template <typename Z, typename T>
__global__ void __launch_bounds__(Z::kBlock)
    attention_dkv_kernel(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const float* lse,
                         const float* delta, T* dk, T* dv, AttentionSizes z) {
  float *const keys = shared, *const values = keys + Z::kOwnTile, *const queries = values + Z::kOwnTile,
               *const slopes = queries + Z::kOtherTile, *const weights = slopes + Z::kOtherTile;
  const int row = threadIdx.x / Z::kCols, col = threadIdx.x % Z::kCols;
  const int64_t first = int64_t{blockIdx.x} * Z::kOwn, c = blockIdx.y, b = blockIdx.z, rows = z.T - first;
  const int64_t group = z.H / z.K, least = first - (z.T - z.S);  // the first query that sees the first key here
  const int64_t begin = least > 0 ? least / Z::kOther * Z::kOther : 0;
  const float factor = score_factor(z);
  if (attend) attend += b * z.T;
  load_tile<Z>(k + key_at(b, first, c, z), z.K * z.D, rows, z.D, Z::kOwn, keys);
  load_tile<Z>(v + key_at(b, first, c, z), z.K * z.D, rows, z.D, Z::kOwn, values);
  float of_k[Z::R][Z::C] = {}, of_v[Z::R][Z::C] = {}, factors[Z::R], ones[Z::R];
  for (int i = 0; i < Z::R; ++i) factors[i] = factor, ones[i] = 1;
  for (int64_t h = c * group; h < (c + 1) * group; ++h)
    for (int64_t at = begin; at < z.S; at += Z::kOther) {
      __syncthreads();
      load_tile<Z>(q + query_at(b, at, h, z), z.H * z.D, z.S - at, z.D, Z::kOther, queries);
      load_tile<Z>(dy + query_at(b, at, h, z), z.H * z.D, z.S - at, z.D, Z::kOther, slopes);
      __syncthreads();
      float p[Z::R][Z::J], dp[Z::R][Z::J];
      dot_rows<Z>(keys, queries, p);
      dot_rows<Z>(values, slopes, dp);
      for (int n = 0; n < Z::J; ++n) {
        const int64_t query = at + col + n * Z::kCols, place = (b * z.H + h) * z.S + query;
        const float lse_of = query < z.S ? lse[place] : 0, delta_of = query < z.S ? delta[place] : 0;
        for (int i = 0; i < Z::R; ++i) {
          const bool seen = sees(query, first + row + i * Z::kRows, attend, z);
          p[i][n] = seen ? expf(p[i][n] * factor - lse_of) : 0;
          dp[i][n] = p[i][n] * (dp[i][n] - delta_of);
          weight_at<Z>(weights, i, n) = p[i][n];
        }
      }
      __syncwarp();
      add_weighted<Z>(weights, slopes, of_v);
      __syncwarp();  // all have read p: ds may take its place
      for (int i = 0; i < Z::R; ++i)
        for (int n = 0; n < Z::J; ++n) weight_at<Z>(weights, i, n) = dp[i][n];
      __syncwarp();
      add_weighted<Z>(weights, queries, of_k);
    }
  store_rows<Z>(dk + key_at(b, first, c, z), z.K * z.D, rows, z.D, of_k, factors);
  store_rows<Z>(dv + key_at(b, first, c, z), z.K * z.D, rows, z.D, of_v, ones);
}

// Starts a kernel that may take more shared memory than the 48 KB that every kernel has.
template <typename... Parameters, typename... Arguments>
void launch_wide(void (*kernel)(Parameters...), Grid grid, int threads, int64_t floats, cudaStream_t stream,
                 Arguments&&... arguments) {
  const auto bytes = static_cast<int>(floats * static_cast<int64_t>(sizeof(float)));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "cudaFuncSetAttribute",
        grid.at);
  launch(kernel, grid, threads, bytes, stream, std::forward<Arguments>(arguments)...);
}

template <typename Z, typename T>
void forward(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse, const AttentionSizes& z,
             cudaStream_t stream) {
  launch_wide(attention_kernel<Z, T>, {ceil_div(z.S, Z::kOwn), z.H, z.B}, Z::kBlock,
              Z::kOwnTile + 2 * Z::kOtherTile + Z::kWeights, stream, q, k, v, attend, y, lse, z);
}

template <typename Z, typename T>
void backward(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const float* lse,
              const float* delta, T* dq, T* dk, T* dv, const AttentionSizes& z, cudaStream_t stream) {
  constexpr int64_t floats = 2 * Z::kOwnTile + 2 * Z::kOtherTile + Z::kWeights;
  launch_wide(attention_dq_kernel<Z, T>, {ceil_div(z.S, Z::kOwn), z.H, z.B}, Z::kBlock, floats, stream, dy, q, k, v,
              attend, lse, delta, dq, z);
  launch_wide(attention_dkv_kernel<Z, T>, {ceil_div(z.T, Z::kOwn), z.K, z.B}, Z::kBlock, floats, stream, dy, q, k,
              v, attend, lse, delta, dk, dv, z);
}

// Up to so many queries, each has a row of threads of its own. Where a text is written there is one query, and threads
// that compute four would compute three that are not there.
constexpr int64_t kFew = 16;

}  // namespace

// The tiles of each cut fit into 99 KB of shared memory, what the smallest of the supported cards has.
template <typename T>
void attention(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse, const AttentionSizes& z,
               cudaStream_t stream) {
  const bool few = z.S <= kFew;
  const auto run = z.D <= 32    ? few ? forward<Cut<32, 1, 2>, T> : forward<Cut<32, 4, 4>, T>
                   : z.D <= 64  ? few ? forward<Cut<64, 1, 4>, T> : forward<Cut<64, 4, 4>, T>
                   : z.D <= 128 ? few ? forward<Cut<128, 1, 2>, T> : forward<Cut<128, 4, 2>, T>
                                : forward<Cut<256, 2, 1>, T>;
  run(q, k, v, attend, y, lse, z, stream);
}

template <typename T>
void attention_backward(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const T* y,
                        const float* lse, T* dq, T* dk, T* dv, float* delta, const AttentionSizes& z,
                        cudaStream_t stream) {
  launch(delta_kernel<T>, blocks_for(z.B * z.S * z.H * kWarp), kThreads, 0, stream, dy, y, delta, z);
  const auto run = z.D <= 32    ? z.T <= kFew ? backward<Cut<32, 1, 2>, T> : backward<Cut<32, 4, 4>, T>
                   : z.D <= 64  ? backward<Cut<64, 4, 4>, T>
                   : z.D <= 128 ? backward<Cut<128, 2, 2>, T>
                                : backward<Cut<256, 1, 1>, T>;
  run(dy, q, k, v, attend, lse, delta, dq, dk, dv, z, stream);
}

template void attention(const float*, const float*, const float*, const int32_t*, float*, float*,
                        const AttentionSizes&, cudaStream_t);
template void attention(const bf16*, const bf16*, const bf16*, const int32_t*, bf16*, float*, const AttentionSizes&,
                        cudaStream_t);
template void attention_backward(const float*, const float*, const float*, const float*, const int32_t*, const float*,
                                 const float*, float*, float*, float*, float*, const AttentionSizes&, cudaStream_t);
template void attention_backward(const bf16*, const bf16*, const bf16*, const bf16*, const int32_t*, const bf16*,
                                 const float*, bf16*, bf16*, bf16*, float*, const AttentionSizes&, cudaStream_t);

}  // namespace course::cuda
