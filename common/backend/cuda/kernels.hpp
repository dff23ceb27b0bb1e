// What starts the kernels behind CudaBackend, on bare device memory. Shapes are checked by the caller; the meaning of
// each is said in common/backend/backend.hpp. Letters as there; sizes are int64_t, memory is row-major, starts at a
// multiple of 16 bytes and does not overlap unless a comment says it may. Any size may be 0.
//
// Each returns at once: the work is done on the stream, after what was put there before. An Error says that a kernel
// could not be started, or that an earlier one failed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/shapes.hpp"

namespace course::cuda {

using shapes::AttentionSizes;

// T is float or bf16: what is T in one call is of one type.
using bf16 = __nv_bfloat16;

// elements.cu
void copy_blocks(const void* from, int64_t from_step, void* to, int64_t to_step, int64_t blocks, int64_t block,
                 cudaStream_t stream);  // in bytes
template <typename T>
void fill(T* x, int64_t n, float value, cudaStream_t stream);
template <typename From, typename To>  // one is float, the other bf16
void cast(const From* x, To* y, int64_t n, cudaStream_t stream);
template <typename T, typename U>  // U is T, or bf16 where T is float
void add(T* x, const U* y, int64_t n, cudaStream_t stream);
template <typename T>
void scale(T* x, int64_t n, float factor, cudaStream_t stream);
template <typename T>
void add_bias(T* y, const T* bias, int64_t N, int64_t E, cudaStream_t stream);

// sums.cu. partial [norm_parts(n)] is scratch; the result is one number.
int64_t norm_parts(int64_t n);
template <typename T>
void squared_norm(const T* x, int64_t n, double* partial, double* result, cudaStream_t stream);
void add_columns(const float* x, float* sums, int64_t N, int64_t E, cudaStream_t stream);  // sums [E] adds Σ_n x [N,E]
// The same for many rows. partial [sum_parts(N),E] is scratch.
int64_t sum_parts(int64_t N);
template <typename T>
void sum_rows(const T* dy, float* dbias, float* partial, int64_t N, int64_t E, cudaStream_t stream);

// embedding.cu: rows is R
template <typename T>
void embedding(const int32_t* ids, const T* table, int64_t begin, int64_t rows, T* y, int64_t N, int64_t E,
               cudaStream_t stream);
template <typename T>
void embedding_backward(const int32_t* ids, const T* dy, int64_t begin, int64_t rows, float* dtable, int64_t N,
                        int64_t E, cudaStream_t stream);
// index becomes n where all ids are in 0..end-1.
void first_outside(const int32_t* ids, int64_t n, int64_t end, int64_t* index, cudaStream_t stream);

// norm.cu
template <typename T>
void rms_norm(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t N, int64_t E, cudaStream_t stream);
// partial [norm_blocks(N),E] is scratch. dx may be dy.
int64_t norm_blocks(int64_t N);
template <typename T>
void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* rstd, T* dx, float* dweight,
                       float* partial, int64_t N, int64_t E, cudaStream_t stream);

// activations.cu: an output may be one of the inputs
template <typename T>
void gelu(const T* x, Gelu kind, T* y, int64_t n, cudaStream_t stream);
template <typename T>
void gelu_backward(const T* dy, const T* x, Gelu kind, T* dx, int64_t n, cudaStream_t stream);
template <typename T>
void silu_mul(const T* gate, const T* up, T* y, int64_t n, cudaStream_t stream);
template <typename T>
void silu_mul_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n, cudaStream_t stream);

// rope.cu. P is how many positions the tables have. A token whose position is none of them is left as it is, and `wrong`,
// in pinned memory of the host, says so once the stream is through; of several, one is named.
struct WrongPosition {
  int32_t found = false, position = 0;
  int64_t table = 0;
};
template <typename T>
void rope(T* x, const float* cos, const float* sin, const int32_t* positions, int64_t P, bool backward, int64_t B,
          int64_t S, int64_t H, int64_t D, WrongPosition* wrong, cudaStream_t stream);

// attention.cu: attend may be null
inline constexpr int64_t kMostHeadSize = 256;  // of D
template <typename T>
void attention(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse,
               const AttentionSizes& sizes, cudaStream_t stream);
// delta [B,H,S] is scratch.
template <typename T>
void attention_backward(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const T* y,
                        const float* lse, T* dq, T* dk, T* dv, float* delta, const AttentionSizes& sizes,
                        cudaStream_t stream);

// cross_entropy.cu: columns is R
template <typename T>
void row_max(const T* logits, float* max, int64_t N, int64_t columns, cudaStream_t stream);
template <typename T>
void row_sum_exp(const T* logits, const float* max, float* sum, int64_t N, int64_t columns, cudaStream_t stream);
template <typename T>
void pick(const T* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns,
          cudaStream_t stream);
template <typename T>
void cross_entropy_backward(T* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns, cudaStream_t stream);

// optimizer.cu. Many tensors a kernel: a model has hundreds, and most are too small to fill a card.
struct AdamWPointers {
  static constexpr int kMost = 64;  // a kernel's arguments are at most 4,096 bytes
  float* value[kMost];
  const float* grad[kMost];
  float* mean[kMost];
  float* square[kMost];
  int64_t size[kMost];
  int32_t count = 0;
};
void adamw(const AdamWPointers& tensors, const AdamWStep& step, cudaStream_t stream);

}  // namespace course::cuda
