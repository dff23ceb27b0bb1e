// The kernels behind CpuBackend, on bare memory. Shapes are checked by the caller; the meaning of each is said in
// common/backend/backend.hpp. Letters as there; sizes are int64_t, memory is row-major and does not overlap unless a
// comment says it may. T is float or BFloat16.
#pragma once

#include <cstdint>

#include "common/backend/shapes.hpp"

namespace course::cpu {

using shapes::AttentionSizes;

// elements.cpp
void copy_bytes(const void* from, void* to, int64_t bytes);
void copy_blocks(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t blocks,
                 int64_t block);  // in bytes
template <typename T>
void fill(T* x, int64_t n, float value);
template <typename X, typename Y>
void cast(const X* x, Y* y, int64_t n);  // of two types
template <typename X, typename Y>
void add(X* x, const Y* y, int64_t n);  // of one type, or a bf16 y to an f32 x
template <typename T>
void scale(T* x, int64_t n, float factor);
template <typename T>
double squared_norm(const T* x, int64_t n);
template <typename T>
void add_bias(T* y, const T* bias, int64_t N, int64_t E);
template <typename T>
void sum_rows(const T* dy, float* dbias, int64_t N, int64_t E);

// embedding.cpp: rows is R
template <typename T>
void embedding(const int32_t* ids, const T* table, int64_t begin, int64_t rows, T* y, int64_t N, int64_t E);
template <typename T>
void embedding_backward(const int32_t* ids, const T* dy, int64_t begin, int64_t rows, float* dtable, int64_t N,
                        int64_t E);
std::optional<int64_t> first_outside(const int32_t* ids, int64_t n, int64_t end);

// norm.cpp
template <typename T>
void rms_norm(const T* x, const T* weight, float eps, T* y, float* rstd, int64_t N, int64_t E);
// partial [norm_blocks(N),E] is scratch. dx may be dy.
int64_t norm_blocks(int64_t N);
template <typename T>
void rms_norm_backward(const T* dy, const T* x, const T* weight, const float* rstd, T* dx, float* dweight,
                       float* partial, int64_t N, int64_t E);

// activations.cpp: an output may be one of the inputs
template <typename T>
void gelu(const T* x, Gelu kind, T* y, int64_t n);
template <typename T>
void gelu_backward(const T* dy, const T* x, Gelu kind, T* dx, int64_t n);
template <typename T>
void silu_mul(const T* gate, const T* up, T* y, int64_t n);
template <typename T>
void silu_mul_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t n);

// rope.cpp
template <typename T>
void rope(T* x, const float* cos, const float* sin, const int32_t* positions, bool backward, int64_t B, int64_t S,
          int64_t H, int64_t D);

// attention.cpp
// Floats of scratch that each thread needs.
template <typename T>
int64_t attention_scratch(const AttentionSizes& sizes);
template <typename T>
int64_t attention_backward_scratch(const AttentionSizes& sizes);
template <typename T>
void attention(const T* q, const T* k, const T* v, const int32_t* attend, T* y, float* lse, float* scratch,
               const AttentionSizes& sizes);
template <typename T>
void attention_backward(const T* dy, const T* q, const T* k, const T* v, const int32_t* attend, const T* y,
                        const float* lse, T* dq, T* dk, T* dv, float* scratch, const AttentionSizes& sizes);

// cross_entropy.cpp: columns is R
template <typename T>
void row_max(const T* logits, float* max, int64_t N, int64_t columns);
template <typename T>
void row_sum_exp(const T* logits, const float* max, float* sum, int64_t N, int64_t columns);
template <typename T>
void pick(const T* logits, const int32_t* targets, int64_t begin, float* picked, int64_t N, int64_t columns);
template <typename T>
void cross_entropy_backward(T* logits, const float* max, const float* sum, const int32_t* targets, int64_t begin,
                            int64_t ignore, float factor, int64_t N, int64_t columns);

// optimizer.cpp
void adamw(float* value, const float* grad, float* mean, float* square, const AdamWStep& step, int64_t n);

}  // namespace course::cpu
