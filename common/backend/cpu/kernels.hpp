// The kernels behind CpuBackend, on bare memory. Shapes are checked by the caller; the meaning of each is said in
// common/backend/backend.hpp. Letters as there; sizes are int64_t, memory is row-major and does not overlap unless a
// comment says it may.
#pragma once

#include <cstdint>

#include "common/backend/shapes.hpp"

namespace course::cpu {

using shapes::AttentionSizes;

// elements.cpp
void copy_bytes(const void* from, void* to, int64_t bytes);
void copy_blocks(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t blocks,
                 int64_t block);  // in bytes
void fill(float* x, int64_t n, float value);
void cast(const float* x, BFloat16* y, int64_t n);
void cast(const BFloat16* x, float* y, int64_t n);
void add(float* x, const float* y, int64_t n);
void scale(float* x, int64_t n, float factor);
double squared_norm(const float* x, int64_t n);
void add_bias(float* y, const float* bias, int64_t N, int64_t E);
void sum_rows(const float* dy, float* dbias, int64_t N, int64_t E);

// embedding.cpp: rows is R
void embedding(const int32_t* ids, const float* table, int64_t begin, int64_t rows, float* y, int64_t N, int64_t E);
void embedding_backward(const int32_t* ids, const float* dy, int64_t begin, int64_t rows, float* dtable, int64_t N,
                        int64_t E);
std::optional<int64_t> first_outside(const int32_t* ids, int64_t n, int64_t end);

// norm.cpp
void rms_norm(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E);
// partial [norm_blocks(N),E] is scratch. dx may be dy.
int64_t norm_blocks(int64_t N);
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* rstd, float* dx,
                       float* dweight, float* partial, int64_t N, int64_t E);

// activations.cpp: an output may be one of the inputs
void gelu(const float* x, Gelu kind, float* y, int64_t n);
void gelu_backward(const float* dy, const float* x, Gelu kind, float* dx, int64_t n);
void silu_mul(const float* gate, const float* up, float* y, int64_t n);
void silu_mul_backward(const float* dy, const float* gate, const float* up, float* dgate, float* dup, int64_t n);

// rope.cpp
void rope(float* x, const float* cos, const float* sin, const int32_t* positions, bool backward, int64_t B, int64_t S,
          int64_t H, int64_t D);

// attention.cpp
// Floats of scratch that each thread needs.
int64_t attention_scratch(const AttentionSizes& sizes);
int64_t attention_backward_scratch(const AttentionSizes& sizes);
void attention(const float* q, const float* k, const float* v, const int32_t* attend, float* y, float* lse,
               float* scratch, const AttentionSizes& sizes);
void attention_backward(const float* dy, const float* q, const float* k, const float* v, const int32_t* attend,
                        const float* y, const float* lse, float* dq, float* dk, float* dv, float* scratch,
                        const AttentionSizes& sizes);

// cross_entropy.cpp: columns is R
void row_max(const float* logits, float* max, int64_t N, int64_t columns);
void row_sum_exp(const float* logits, const float* max, float* sum, int64_t N, int64_t columns);
void pick(const float* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns);
void cross_entropy_backward(float* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns);

// optimizer.cpp
void adamw(float* value, const float* grad, float* mean, float* square, const AdamWStep& step, int64_t n);

}  // namespace course::cpu
