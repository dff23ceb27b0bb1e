// What each kernel asks of its arguments, said once for all devices. A check throws Error with the shapes or the
// types; the letters and meanings are those of common/backend/backend.hpp. Types of ids are checked by Tensor::data,
// where a kernel takes the memory.
#pragma once

#include "common/backend/backend.hpp"

namespace course::shapes {

int64_t rows_of(const Tensor& x);  // the product of all dims but the last

void check_copy(const Tensor& from, const Tensor& to);
// Where there is nothing to copy, nothing is refused.
void check_copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, const Tensor& to, int64_t to_at,
                       int64_t to_step, int64_t blocks, int64_t block);

void check_cast(const Tensor& x, const Tensor& y);  // the types too
void check_add(const Tensor& x, const Tensor& y);

struct MatmulSizes {
  int64_t M, N, K;
};
MatmulSizes check_matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c);
void check_add_bias(const Tensor& y, const Tensor& bias);
void check_sum_rows(const Tensor& dy, const Tensor& dbias);

void check_embedding(const Tensor& ids, const Tensor& table, const Tensor& y);
void check_embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable);

void check_rms_norm(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& rstd);
void check_rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                             const Tensor& dx, const Tensor& dweight);

void check_gelu(const Tensor& x, const Tensor& y);
void check_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx);
void check_silu_mul(const Tensor& gate, const Tensor& up, const Tensor& y);
void check_silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& dgate,
                             const Tensor& dup);

// The shapes alone; that no position leaves the table is for the backend to find, where the positions lie.
void check_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions);
[[noreturn]] void refuse_position(int32_t position, int64_t table);  // of so many positions
[[noreturn]] inline void refuse_position(int32_t position, const Tensor& cos) { refuse_position(position, cos.dim(0)); }

struct AttentionSizes {
  int64_t B, S, T, H, K, D;
};
AttentionSizes check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, const Tensor& y,
                               const Tensor& lse);
AttentionSizes check_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor* attend, const Tensor& y, const Tensor& lse, const Tensor& dq,
                                        const Tensor& dk, const Tensor& dv);

void check_row_max(const Tensor& logits, const Tensor& max);
void check_row_sum_exp(const Tensor& logits, const Tensor& max, const Tensor& sum);
void check_pick(const Tensor& logits, const Tensor& targets, const Tensor& picked);
void check_cross_entropy_backward(const Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets);

void check_adamw(std::span<const AdamWTensors> all, const AdamWStep& step);

}  // namespace course::shapes
