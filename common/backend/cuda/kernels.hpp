// What starts the kernels behind CudaBackend, on bare device memory. Shapes are checked by the caller; the meaning of
// each is said in common/backend/backend.hpp. Letters as there; sizes are int64_t, memory is row-major, starts at a
// multiple of 16 bytes and does not overlap unless a comment says it may. Any size may be 0.
//
// Each returns at once: the work is done on the stream, after what was put there before. An Error says that a kernel
// could not be started, or that an earlier one failed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/shapes.hpp"

namespace course::cuda {

using shapes::AttentionSizes;

// elements.cu
void copy_blocks(const void* from, int64_t from_step, void* to, int64_t to_step, int64_t blocks, int64_t block,
                 cudaStream_t stream);  // in bytes
void fill(float* x, int64_t n, float value, cudaStream_t stream);
void add(float* x, const float* y, int64_t n, cudaStream_t stream);
void scale(float* x, int64_t n, float factor, cudaStream_t stream);
void add_bias(float* y, const float* bias, int64_t N, int64_t E, cudaStream_t stream);

// sums.cu. partial [norm_parts(n)] is scratch; the result is one number.
int64_t norm_parts(int64_t n);
void squared_norm(const float* x, int64_t n, double* partial, double* result, cudaStream_t stream);
void add_columns(const float* x, float* sums, int64_t N, int64_t E, cudaStream_t stream);  // sums [E] adds Σ_n x [N,E]
// The same for many rows. partial [sum_parts(N),E] is scratch.
int64_t sum_parts(int64_t N);
void sum_rows(const float* dy, float* dbias, float* partial, int64_t N, int64_t E, cudaStream_t stream);

// embedding.cu: rows is R
void embedding(const int32_t* ids, const float* table, int64_t begin, int64_t rows, float* y, int64_t N, int64_t E,
               cudaStream_t stream);
// next and first [N] are scratch.
void embedding_backward(const int32_t* ids, const float* dy, int64_t begin, int64_t rows, float* dtable, int64_t* next,
                        int32_t* first, int64_t N, int64_t E, cudaStream_t stream);
// index becomes n where all ids are in 0..end-1.
void first_outside(const int32_t* ids, int64_t n, int64_t end, int64_t* index, cudaStream_t stream);

// norm.cu
void rms_norm(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
              cudaStream_t stream);
// partial [norm_blocks(N),E] is scratch. dx may be dy.
int64_t norm_blocks(int64_t N);
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* rstd, float* dx,
                       float* dweight, float* partial, int64_t N, int64_t E, cudaStream_t stream);

// activations.cu: an output may be one of the inputs
void gelu(const float* x, Gelu kind, float* y, int64_t n, cudaStream_t stream);
void gelu_backward(const float* dy, const float* x, Gelu kind, float* dx, int64_t n, cudaStream_t stream);
void silu_mul(const float* gate, const float* up, float* y, int64_t n, cudaStream_t stream);
void silu_mul_backward(const float* dy, const float* gate, const float* up, float* dgate, float* dup, int64_t n,
                       cudaStream_t stream);

// rope.cu
void rope(float* x, const float* cos, const float* sin, const int32_t* positions, bool backward, int64_t B, int64_t S,
          int64_t H, int64_t D, cudaStream_t stream);

// attention.cu: attend may be null
inline constexpr int64_t kMostHeadSize = 256;  // of D
void attention(const float* q, const float* k, const float* v, const int32_t* attend, float* y, float* lse,
               const AttentionSizes& sizes, cudaStream_t stream);
// delta [B,H,S] is scratch.
void attention_backward(const float* dy, const float* q, const float* k, const float* v, const int32_t* attend,
                        const float* y, const float* lse, float* dq, float* dk, float* dv, float* delta,
                        const AttentionSizes& sizes, cudaStream_t stream);

// cross_entropy.cu: columns is R
void row_max(const float* logits, float* max, int64_t N, int64_t columns, cudaStream_t stream);
void row_sum_exp(const float* logits, const float* max, float* sum, int64_t N, int64_t columns, cudaStream_t stream);
void pick(const float* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns,
          cudaStream_t stream);
void cross_entropy_backward(float* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
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
