#include "common/backend/shapes.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace course::shapes {

namespace {

void same(const char* what, const Tensor& x, const Tensor& y) {
  require(x.shape() == y.shape(), what, ": shapes ", shown(x.shape()), " and ", shown(y.shape()), " differ");
}

// x is a vector of n elements, in any shape.
void holds(const char* what, const Tensor& x, int64_t n) {
  require(x.numel() == n, what, ": ", shown(x.shape()), " should hold ", n, " elements");
}

void is(const char* what, const Tensor& x, const Shape& shape) {
  require(x.shape() == shape, what, ": shape ", shown(x.shape()), " should be ", shown(shape));
}

void at_least(const char* what, const Tensor& x, int64_t rank) {
  require(x.rank() >= rank, what, ": ", shown(x.shape()), " has fewer than ", rank, " dims");
}

// The tensors that a kernel takes in either type: all f32 or all bf16.
void one_type(const char* kernel, std::initializer_list<const Tensor*> all) {
  const DType type = (*all.begin())->dtype();
  require(type == DType::F32 || type == DType::BF16, kernel, ": ", name_of(type), " is neither f32 nor bf16");
  for (const Tensor* x : all)
    require(x->dtype() == type, kernel, ": ", name_of(type), " and ", name_of(x->dtype()), " in one call");
}

void is_f32(const char* what, const Tensor& x) {
  require(x.dtype() == DType::F32, what, " is ", name_of(x.dtype()), " and should be f32");
}

// Runs of a copy all lie inside x. The first and the last are the outermost, whichever way the steps go.
void runs_fit(const char* which, const Tensor& x, int64_t at, int64_t step, int64_t blocks, int64_t block) {
  const int64_t last = at + (blocks - 1) * step;
  require(std::min(at, last) >= 0 && std::max(at, last) + block <= x.numel(), "copy_blocks: ", blocks, " runs of ",
          block, " ", which, " element ", at, " on, ", step, " apart, leave ", shown(x.shape()));
}

AttentionSizes attention_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend) {
  require(q.rank() == 4 && k.rank() == 4, "attention: q ", shown(q.shape()), " and k ", shown(k.shape()),
          " should have 4 dims");
  const AttentionSizes z = {q.dim(0), q.dim(1), k.dim(1), q.dim(2), k.dim(2), q.dim(3)};
  same("attention: k and v", k, v);
  require(k.dim(0) == z.B && k.dim(3) == z.D, "attention: q ", shown(q.shape()), " does not fit k ", shown(k.shape()));
  require(z.T >= z.S, "attention: ", z.S, " queries but only ", z.T, " keys");
  require(z.K > 0 ? z.H % z.K == 0 : z.H == 0, "attention: ", z.H, " heads over ", z.K, " key/value heads");
  if (attend) is("attention: attend", *attend, {z.B, z.T});
  return z;
}

}  // namespace

int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.rank(); ++d) rows *= x.dim(d);
  return rows;
}

void check_copy(const Tensor& from, const Tensor& to) {
  same("copy", from, to);
  require(from.dtype() == to.dtype(), "copy: ", name_of(from.dtype()), " to ", name_of(to.dtype()));
}

void check_copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, const Tensor& to, int64_t to_at,
                       int64_t to_step, int64_t blocks, int64_t block) {
  require(from.dtype() == to.dtype(), "copy_blocks: ", name_of(from.dtype()), " to ", name_of(to.dtype()));
  require(blocks >= 0 && block >= 0, "copy_blocks: ", blocks, " runs of ", block);
  if (blocks == 0 || block == 0) return;
  runs_fit("from", from, from_at, from_step, blocks, block);
  runs_fit("to", to, to_at, to_step, blocks, block);
}

void check_cast(const Tensor& x, const Tensor& y) {
  same("cast: x and y", x, y);
  for (const DType type : {x.dtype(), y.dtype()})
    require(type == DType::F32 || type == DType::BF16, "cast: ", name_of(type), " is neither f32 nor bf16");
}

void check_add(const Tensor& x, const Tensor& y) {
  same("add", x, y);
  one_type("add: x", {&x}), one_type("add: y", {&y});
  require(x.dtype() == DType::F32 || y.dtype() == DType::BF16, "add: f32 to a bf16 sum");
}

MatmulSizes check_matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, const Tensor& c) {
  at_least("matmul", a, 2), at_least("matmul", b, 2), at_least("matmul", c, 2);
  int64_t M = rows_of(a), K = a.dim(-1), k = rows_of(b), N = b.dim(-1);
  if (transpose_a) std::swap(M, K);
  if (transpose_b) std::swap(k, N);
  require(K == k && rows_of(c) == M && c.dim(-1) == N, "matmul: a ", shown(a.shape()), transpose_a ? " transposed" : "",
          ", b ", shown(b.shape()), transpose_b ? " transposed" : "", " and c ", shown(c.shape()), " do not fit");
  one_type("matmul", {&a, &b});
  require(c.dtype() == DType::F32 || c.dtype() == a.dtype(), "matmul: c is ", name_of(c.dtype()), ", a and b are ",
          name_of(a.dtype()));
  return {M, N, K};
}

void check_add_bias(const Tensor& y, const Tensor& bias) {
  at_least("add_bias", y, 1);
  holds("add_bias: bias", bias, y.dim(-1));
  one_type("add_bias", {&y, &bias});
}

void check_sum_rows(const Tensor& dy, const Tensor& dbias) {
  at_least("sum_rows", dy, 1);
  holds("sum_rows: dbias", dbias, dy.dim(-1));
  one_type("sum_rows", {&dy}), is_f32("sum_rows: dbias", dbias);
}

void check_embedding(const Tensor& ids, const Tensor& table, const Tensor& y) {
  require(table.rank() == 2, "embedding: the table ", shown(table.shape()), " should have 2 dims");
  holds("embedding: y", y, ids.numel() * table.dim(1));
  one_type("embedding", {&table, &y});
}

void check_embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable) {
  require(dtable.rank() == 2, "embedding_backward: the table ", shown(dtable.shape()), " should have 2 dims");
  holds("embedding_backward: dy", dy, ids.numel() * dtable.dim(1));
  one_type("embedding_backward", {&dy}), is_f32("embedding_backward: dtable", dtable);
}

void check_rms_norm(const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& rstd) {
  at_least("rms_norm", x, 1);
  holds("rms_norm: weight", weight, x.dim(-1));
  same("rms_norm: x and y", x, y);
  holds("rms_norm: rstd", rstd, rows_of(x));
  one_type("rms_norm", {&x, &weight, &y}), is_f32("rms_norm: rstd", rstd);
}

void check_rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                             const Tensor& dx, const Tensor& dweight) {
  at_least("rms_norm_backward", x, 1);
  same("rms_norm_backward: dy and x", dy, x);
  same("rms_norm_backward: dx and x", dx, x);
  holds("rms_norm_backward: weight", weight, x.dim(-1));
  holds("rms_norm_backward: dweight", dweight, x.dim(-1));
  holds("rms_norm_backward: rstd", rstd, rows_of(x));
  one_type("rms_norm_backward", {&dy, &x, &weight, &dx});
  is_f32("rms_norm_backward: rstd", rstd), is_f32("rms_norm_backward: dweight", dweight);
}

void check_gelu(const Tensor& x, const Tensor& y) {
  same("gelu", x, y);
  one_type("gelu", {&x, &y});
}

void check_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  same("gelu_backward: dy and x", dy, x);
  same("gelu_backward: dx and x", dx, x);
  one_type("gelu_backward", {&dy, &x, &dx});
}

void check_silu_mul(const Tensor& gate, const Tensor& up, const Tensor& y) {
  same("silu_mul: gate and up", gate, up);
  same("silu_mul: gate and y", gate, y);
  one_type("silu_mul", {&gate, &up, &y});
}

void check_silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, const Tensor& dgate,
                             const Tensor& dup) {
  same("silu_mul_backward: gate and up", gate, up);
  same("silu_mul_backward: gate and dy", gate, dy);
  same("silu_mul_backward: gate and dgate", gate, dgate);
  same("silu_mul_backward: gate and dup", gate, dup);
  one_type("silu_mul_backward", {&dy, &gate, &up, &dgate, &dup});
}

void check_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions) {
  require(x.rank() == 4 && x.dim(3) % 2 == 0, "rope: x ", shown(x.shape()), " should be [B,S,H,D] with D even");
  require(cos.rank() == 2 && cos.dim(1) == x.dim(3) / 2, "rope: a table ", shown(cos.shape()), " for x ",
          shown(x.shape()));
  same("rope: cos and sin", cos, sin);
  holds("rope: positions", positions, x.dim(1));
  one_type("rope", {&x}), is_f32("rope: cos", cos), is_f32("rope: sin", sin);
}

void refuse_position(int32_t position, int64_t table) {
  fail(cat("rope: position ", position, " in a table of ", table));
}

AttentionSizes check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, const Tensor& y,
                               const Tensor& lse) {
  const AttentionSizes z = attention_sizes(q, k, v, attend);
  same("attention: q and y", q, y);
  is("attention: lse", lse, {z.B, z.H, z.S});
  one_type("attention", {&q, &k, &v, &y}), is_f32("attention: lse", lse);
  return z;
}

AttentionSizes check_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor* attend, const Tensor& y, const Tensor& lse, const Tensor& dq,
                                        const Tensor& dk, const Tensor& dv) {
  const AttentionSizes z = attention_sizes(q, k, v, attend);
  same("attention_backward: q and y", q, y);
  same("attention_backward: q and dy", q, dy);
  same("attention_backward: q and dq", q, dq);
  same("attention_backward: k and dk", k, dk);
  same("attention_backward: v and dv", v, dv);
  is("attention_backward: lse", lse, {z.B, z.H, z.S});
  one_type("attention_backward", {&dy, &q, &k, &v, &y, &dq, &dk, &dv}), is_f32("attention_backward: lse", lse);
  return z;
}

void check_row_max(const Tensor& logits, const Tensor& max) {
  at_least("row_max", logits, 1);
  holds("row_max: max", max, rows_of(logits));
  one_type("row_max", {&logits}), is_f32("row_max: max", max);
}

void check_row_sum_exp(const Tensor& logits, const Tensor& max, const Tensor& sum) {
  at_least("row_sum_exp", logits, 1);
  holds("row_sum_exp: max", max, rows_of(logits));
  holds("row_sum_exp: sum", sum, rows_of(logits));
  one_type("row_sum_exp", {&logits}), is_f32("row_sum_exp: max", max), is_f32("row_sum_exp: sum", sum);
}

void check_pick(const Tensor& logits, const Tensor& targets, const Tensor& picked) {
  at_least("pick", logits, 1);
  holds("pick: targets", targets, rows_of(logits));
  holds("pick: picked", picked, rows_of(logits));
  one_type("pick", {&logits}), is_f32("pick: picked", picked);
}

void check_cross_entropy_backward(const Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets) {
  at_least("cross_entropy_backward", logits, 1);
  holds("cross_entropy_backward: max", max, rows_of(logits));
  holds("cross_entropy_backward: sum", sum, rows_of(logits));
  holds("cross_entropy_backward: targets", targets, rows_of(logits));
  one_type("cross_entropy_backward", {&logits});
  is_f32("cross_entropy_backward: max", max), is_f32("cross_entropy_backward: sum", sum);
}

void check_adamw(std::span<const AdamWTensors> all, const AdamWStep& step) {
  for (const auto& [value, grad, mean, square] : all) {
    same("adamw: value and grad", value, grad);
    same("adamw: value and mean", value, mean);
    same("adamw: value and square", value, square);
    for (const Tensor* x : {&std::as_const(value), &grad, &std::as_const(mean), &std::as_const(square)})
      is_f32("adamw: a tensor", *x);
  }
  require(step.step >= 1, "adamw: steps count from 1, not ", step.step);
}

}  // namespace course::shapes
