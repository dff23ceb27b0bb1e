#include "common/backend/cpu/cpu_backend.hpp"

#include <algorithm>

#include <omp.h>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cpu/kernels.hpp"

namespace course {

namespace {

// The product of all dims but the last: what counts as rows.
int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.rank(); ++d) rows *= x.dim(d);
  return rows;
}

void same(const char* what, const Tensor& x, const Tensor& y) {
  require(x.shape() == y.shape(), what, ": shapes ", show(x.shape()), " and ", show(y.shape()), " differ");
}

// x is a vector of n elements, in any shape.
void holds(const char* what, const Tensor& x, int64_t n) {
  require(x.numel() == n, what, ": ", show(x.shape()), " should hold ", n, " elements");
}

void is(const char* what, const Tensor& x, const Shape& shape) {
  require(x.shape() == shape, what, ": shape ", show(x.shape()), " should be ", show(shape));
}

void at_least(const char* what, const Tensor& x, int64_t rank) {
  require(x.rank() >= rank, what, ": ", show(x.shape()), " has fewer than ", rank, " dims");
}

// Runs of a copy all lie inside x. The first and the last are the outermost, whichever way the steps go.
void runs_fit(const char* which, const Tensor& x, int64_t at, int64_t step, int64_t blocks, int64_t block) {
  const int64_t last = at + (blocks - 1) * step;
  require(std::min(at, last) >= 0 && std::max(at, last) + block <= x.numel(), "copy_blocks: ", blocks, " runs of ",
          block, " ", which, " element ", at, " on, ", step, " apart, leave ", show(x.shape()));
}

cpu::AttentionSizes sizes(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend) {
  require(q.rank() == 4 && k.rank() == 4, "attention: q ", show(q.shape()), " and k ", show(k.shape()),
          " should have 4 dims");
  const cpu::AttentionSizes z = {q.dim(0), q.dim(1), k.dim(1), q.dim(2), k.dim(2), q.dim(3)};
  same("attention: k and v", k, v);
  require(k.dim(0) == z.B && k.dim(3) == z.D, "attention: q ", show(q.shape()), " does not fit k ", show(k.shape()));
  require(z.T >= z.S, "attention: ", z.S, " queries but only ", z.T, " keys");
  require(z.K > 0 ? z.H % z.K == 0 : z.H == 0, "attention: ", z.H, " heads over ", z.K, " key/value heads");
  if (attend) is("attention: attend", *attend, {z.B, z.T});
  return z;
}

const int32_t* mask_of(const Tensor* attend) { return attend ? attend->data<int32_t>() : nullptr; }

}  // namespace

CpuBackend::CpuBackend(int threads) {
  require(threads >= 1, "a backend of ", threads, " threads");
  omp_set_num_threads(threads);
}

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

void CpuBackend::copy_in(Tensor& to, const void* host) { cpu::copy_bytes(host, to.raw(), to.bytes()); }

void CpuBackend::copy_out(const Tensor& from, void* host) const { cpu::copy_bytes(from.raw(), host, from.bytes()); }

void CpuBackend::copy(const Tensor& from, Tensor& to) {
  same("copy", from, to);
  require(from.dtype() == to.dtype(), "copy: ", name_of(from.dtype()), " to ", name_of(to.dtype()));
  cpu::copy_bytes(from.raw(), to.raw(), to.bytes());
}

void CpuBackend::copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at,
                             int64_t to_step, int64_t blocks, int64_t block) {
  require(from.dtype() == to.dtype(), "copy_blocks: ", name_of(from.dtype()), " to ", name_of(to.dtype()));
  require(blocks >= 0 && block >= 0, "copy_blocks: ", blocks, " runs of ", block);
  if (blocks == 0 || block == 0) return;
  runs_fit("from", from, from_at, from_step, blocks, block);
  runs_fit("to", to, to_at, to_step, blocks, block);
  const int64_t size = size_of(from.dtype());
  cpu::copy_blocks(static_cast<const char*>(from.raw()) + from_at * size, from_step * size,
                   static_cast<char*>(to.raw()) + to_at * size, to_step * size, blocks, block * size);
}

void CpuBackend::fill(Tensor& x, float value) { cpu::fill(x.data<float>(), x.numel(), value); }

void CpuBackend::add(Tensor& x, const Tensor& y) {
  same("add", x, y);
  cpu::add(x.data<float>(), y.data<float>(), x.numel());
}

void CpuBackend::scale(Tensor& x, float factor) { cpu::scale(x.data<float>(), x.numel(), factor); }

double CpuBackend::squared_norm(const Tensor& x) const { return cpu::squared_norm(x.data<float>(), x.numel()); }

void CpuBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                        bool accumulate) {
  at_least("matmul", a, 2), at_least("matmul", b, 2), at_least("matmul", c, 2);
  int64_t M = rows_of(a), K = a.dim(-1), k = rows_of(b), N = b.dim(-1);
  if (transpose_a) std::swap(M, K);
  if (transpose_b) std::swap(k, N);
  require(K == k && rows_of(c) == M && c.dim(-1) == N, "matmul: a ", show(a.shape()), transpose_a ? " transposed" : "",
          ", b ", show(b.shape()), transpose_b ? " transposed" : "", " and c ", show(c.shape()), " do not fit");
  cpu::gemm(M, N, K, 1, {a.data<float>(), a.dim(-1), transpose_a}, {b.data<float>(), b.dim(-1), transpose_b},
            accumulate, c.data<float>(), N);
}

void CpuBackend::add_bias(Tensor& y, const Tensor& bias) {
  at_least("add_bias", y, 1);
  holds("add_bias: bias", bias, y.dim(-1));
  cpu::add_bias(y.data<float>(), bias.data<float>(), rows_of(y), y.dim(-1));
}

void CpuBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  at_least("sum_rows", dy, 1);
  holds("sum_rows: dbias", dbias, dy.dim(-1));
  cpu::sum_rows(dy.data<float>(), dbias.data<float>(), rows_of(dy), dy.dim(-1));
}

void CpuBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  require(table.rank() == 2, "embedding: the table ", show(table.shape()), " should have 2 dims");
  holds("embedding: y", y, ids.numel() * table.dim(1));
  cpu::embedding(ids.data<int32_t>(), table.data<float>(), begin, table.dim(0), y.data<float>(), ids.numel(),
                 table.dim(1));
}

void CpuBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  require(dtable.rank() == 2, "embedding_backward: the table ", show(dtable.shape()), " should have 2 dims");
  holds("embedding_backward: dy", dy, ids.numel() * dtable.dim(1));
  cpu::embedding_backward(ids.data<int32_t>(), dy.data<float>(), begin, dtable.dim(0), dtable.data<float>(),
                          ids.numel(), dtable.dim(1));
}

std::optional<int64_t> CpuBackend::first_outside(const Tensor& ids, int64_t end) const {
  return cpu::first_outside(ids.data<int32_t>(), ids.numel(), end);
}

void CpuBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  at_least("rms_norm", x, 1);
  holds("rms_norm: weight", weight, x.dim(-1));
  same("rms_norm: x and y", x, y);
  holds("rms_norm: rstd", rstd, rows_of(x));
  cpu::rms_norm(x.data<float>(), weight.data<float>(), eps, y.data<float>(), rstd.data<float>(), rows_of(x), x.dim(-1));
}

void CpuBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                   Tensor& dx, Tensor& dweight) {
  at_least("rms_norm_backward", x, 1);
  same("rms_norm_backward: dy and x", dy, x);
  same("rms_norm_backward: dx and x", dx, x);
  holds("rms_norm_backward: weight", weight, x.dim(-1));
  holds("rms_norm_backward: dweight", dweight, x.dim(-1));
  holds("rms_norm_backward: rstd", rstd, rows_of(x));
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor partial = empty({cpu::norm_blocks(rows_of(x)), x.dim(-1)});
  cpu::rms_norm_backward(dy.data<float>(), x.data<float>(), weight.data<float>(), rstd.data<float>(), dx.data<float>(),
                         dweight.data<float>(), partial.data<float>(), rows_of(x), x.dim(-1));
}

void CpuBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  same("gelu", x, y);
  cpu::gelu(x.data<float>(), kind, y.data<float>(), x.numel());
}

void CpuBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  same("gelu_backward: dy and x", dy, x);
  same("gelu_backward: dx and x", dx, x);
  cpu::gelu_backward(dy.data<float>(), x.data<float>(), kind, dx.data<float>(), x.numel());
}

void CpuBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  same("silu_mul: gate and up", gate, up);
  same("silu_mul: gate and y", gate, y);
  cpu::silu_mul(gate.data<float>(), up.data<float>(), y.data<float>(), y.numel());
}

void CpuBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) {
  same("silu_mul_backward: gate and up", gate, up);
  same("silu_mul_backward: gate and dy", gate, dy);
  same("silu_mul_backward: gate and dgate", gate, dgate);
  same("silu_mul_backward: gate and dup", gate, dup);
  cpu::silu_mul_backward(dy.data<float>(), gate.data<float>(), up.data<float>(), dgate.data<float>(), dup.data<float>(),
                         dy.numel());
}

void CpuBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  require(x.rank() == 4 && x.dim(3) % 2 == 0, "rope: x ", show(x.shape()), " should be [B,S,H,D] with D even");
  require(cos.rank() == 2 && cos.dim(1) == x.dim(3) / 2, "rope: a table ", show(cos.shape()), " for x ",
          show(x.shape()));
  same("rope: cos and sin", cos, sin);
  holds("rope: positions", positions, x.dim(1));
  const int32_t* position = positions.data<int32_t>();
  if (const auto bad = cpu::first_outside(position, positions.numel(), cos.dim(0)))
    fail(cat("rope: position ", position[*bad], " in a table of ", cos.dim(0)));
  cpu::rope(x.data<float>(), cos.data<float>(), sin.data<float>(), position, backward, x.dim(0), x.dim(1), x.dim(2),
            x.dim(3));
}

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                           Tensor& lse) {
  const cpu::AttentionSizes z = sizes(q, k, v, attend);
  same("attention: q and y", q, y);
  is("attention: lse", lse, {z.B, z.H, z.S});
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor scratch = empty({omp_get_max_threads(), cpu::attention_scratch(z)});
  cpu::attention(q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend), y.data<float>(), lse.data<float>(),
                 scratch.data<float>(), z);
}

void CpuBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                    Tensor& dv) {
  const cpu::AttentionSizes z = sizes(q, k, v, attend);
  same("attention_backward: q and y", q, y);
  same("attention_backward: q and dy", q, dy);
  same("attention_backward: q and dq", q, dq);
  same("attention_backward: k and dk", k, dk);
  same("attention_backward: v and dv", v, dv);
  is("attention_backward: lse", lse, {z.B, z.H, z.S});
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor scratch = empty({omp_get_max_threads(), cpu::attention_backward_scratch(z)});
  cpu::attention_backward(dy.data<float>(), q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend),
                          y.data<float>(), lse.data<float>(), dq.data<float>(), dk.data<float>(), dv.data<float>(),
                          scratch.data<float>(), z);
}

void CpuBackend::row_max(const Tensor& logits, Tensor& max) {
  at_least("row_max", logits, 1);
  holds("row_max: max", max, rows_of(logits));
  cpu::row_max(logits.data<float>(), max.data<float>(), rows_of(logits), logits.dim(-1));
}

void CpuBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  at_least("row_sum_exp", logits, 1);
  holds("row_sum_exp: max", max, rows_of(logits));
  holds("row_sum_exp: sum", sum, rows_of(logits));
  cpu::row_sum_exp(logits.data<float>(), max.data<float>(), sum.data<float>(), rows_of(logits), logits.dim(-1));
}

void CpuBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  at_least("pick", logits, 1);
  holds("pick: targets", targets, rows_of(logits));
  holds("pick: picked", picked, rows_of(logits));
  cpu::pick(logits.data<float>(), targets.data<int32_t>(), begin, picked.data<float>(), rows_of(logits),
            logits.dim(-1));
}

void CpuBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                        int64_t begin, int64_t ignore, float factor) {
  at_least("cross_entropy_backward", logits, 1);
  holds("cross_entropy_backward: max", max, rows_of(logits));
  holds("cross_entropy_backward: sum", sum, rows_of(logits));
  holds("cross_entropy_backward: targets", targets, rows_of(logits));
  cpu::cross_entropy_backward(logits.data<float>(), max.data<float>(), sum.data<float>(), targets.data<int32_t>(),
                              begin, ignore, factor, rows_of(logits), logits.dim(-1));
}

void CpuBackend::adamw(Tensor& value, const Tensor& grad, Tensor& mean, Tensor& square, const AdamWStep& step) {
  same("adamw: value and grad", value, grad);
  same("adamw: value and mean", value, mean);
  same("adamw: value and square", value, square);
  require(step.step >= 1, "adamw: steps count from 1, not ", step.step);
  cpu::adamw(value.data<float>(), grad.data<float>(), mean.data<float>(), square.data<float>(), step, value.numel());
}

}  // namespace course
