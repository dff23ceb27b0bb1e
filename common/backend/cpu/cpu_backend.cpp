#include "common/backend/cpu/cpu_backend.hpp"

#include <omp.h>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cpu/kernels.hpp"
#include "common/backend/scratch.hpp"
#include "common/backend/shapes.hpp"

namespace course {

using shapes::AttentionSizes;
using shapes::rows_of;

namespace {

const int32_t* mask_of(const Tensor* attend) { return attend ? attend->data<int32_t>() : nullptr; }

}  // namespace

CpuBackend::CpuBackend(int threads) {
  require(threads >= 1, "a backend of ", threads, " threads");
  omp_set_num_threads(threads);
}

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

const Scratch cpu_scratch = {
    .embedding_backward = [](int64_t) -> int64_t { return 0; },
    .rms_norm_backward = [](int64_t N, int64_t E) -> int64_t { return 4 * cpu::norm_blocks(N) * E; },
    .attention_backward = [](int64_t B, int64_t S, int64_t T, int64_t H) -> int64_t {
      return 4 * omp_get_max_threads() * cpu::attention_backward_scratch({.B = B, .S = S, .T = T, .H = H});
    },
};

void CpuBackend::copy_in(void* to, const void* host, int64_t bytes) { cpu::copy_bytes(host, to, bytes); }

void CpuBackend::copy_out(const void* from, void* host, int64_t bytes) const { cpu::copy_bytes(from, host, bytes); }

void CpuBackend::copy(const Tensor& from, Tensor& to) {
  shapes::check_copy(from, to);
  cpu::copy_bytes(from.raw(), to.raw(), to.bytes());
}

void CpuBackend::copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at,
                             int64_t to_step, int64_t blocks, int64_t block) {
  shapes::check_copy_blocks(from, from_at, from_step, to, to_at, to_step, blocks, block);
  if (blocks == 0 || block == 0) return;
  const int64_t size = size_of(from.dtype());
  cpu::copy_blocks(static_cast<const char*>(from.raw()) + from_at * size, from_step * size,
                   static_cast<char*>(to.raw()) + to_at * size, to_step * size, blocks, block * size);
}

void CpuBackend::fill(Tensor& x, float value) { cpu::fill(x.data<float>(), x.numel(), value); }

void CpuBackend::add(Tensor& x, const Tensor& y) {
  shapes::check_add(x, y);
  cpu::add(x.data<float>(), y.data<float>(), x.numel());
}

void CpuBackend::scale(Tensor& x, float factor) { cpu::scale(x.data<float>(), x.numel(), factor); }

double CpuBackend::squared_norm(const Tensor& x) const { return cpu::squared_norm(x.data<float>(), x.numel()); }

void CpuBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                        bool accumulate) {
  const auto [M, N, K] = shapes::check_matmul(a, transpose_a, b, transpose_b, c);
  cpu::gemm(M, N, K, 1, {a.data<float>(), a.dim(-1), transpose_a}, {b.data<float>(), b.dim(-1), transpose_b},
            accumulate, c.data<float>(), N);
}

void CpuBackend::add_bias(Tensor& y, const Tensor& bias) {
  shapes::check_add_bias(y, bias);
  cpu::add_bias(y.data<float>(), bias.data<float>(), rows_of(y), y.dim(-1));
}

void CpuBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  shapes::check_sum_rows(dy, dbias);
  cpu::sum_rows(dy.data<float>(), dbias.data<float>(), rows_of(dy), dy.dim(-1));
}

void CpuBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  shapes::check_embedding(ids, table, y);
  cpu::embedding(ids.data<int32_t>(), table.data<float>(), begin, table.dim(0), y.data<float>(), ids.numel(),
                 table.dim(1));
}

void CpuBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  shapes::check_embedding_backward(ids, dy, dtable);
  cpu::embedding_backward(ids.data<int32_t>(), dy.data<float>(), begin, dtable.dim(0), dtable.data<float>(),
                          ids.numel(), dtable.dim(1));
}

std::optional<int64_t> CpuBackend::first_outside(const Tensor& ids, int64_t end) const {
  return cpu::first_outside(ids.data<int32_t>(), ids.numel(), end);
}

void CpuBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  shapes::check_rms_norm(x, weight, y, rstd);
  cpu::rms_norm(x.data<float>(), weight.data<float>(), eps, y.data<float>(), rstd.data<float>(), rows_of(x), x.dim(-1));
}

void CpuBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                   Tensor& dx, Tensor& dweight) {
  shapes::check_rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor partial = empty({cpu::norm_blocks(rows_of(x)), x.dim(-1)});
  cpu::rms_norm_backward(dy.data<float>(), x.data<float>(), weight.data<float>(), rstd.data<float>(), dx.data<float>(),
                         dweight.data<float>(), partial.data<float>(), rows_of(x), x.dim(-1));
}

void CpuBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  shapes::check_gelu(x, y);
  cpu::gelu(x.data<float>(), kind, y.data<float>(), x.numel());
}

void CpuBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  shapes::check_gelu_backward(dy, x, dx);
  cpu::gelu_backward(dy.data<float>(), x.data<float>(), kind, dx.data<float>(), x.numel());
}

void CpuBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  shapes::check_silu_mul(gate, up, y);
  cpu::silu_mul(gate.data<float>(), up.data<float>(), y.data<float>(), y.numel());
}

void CpuBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) {
  shapes::check_silu_mul_backward(dy, gate, up, dgate, dup);
  cpu::silu_mul_backward(dy.data<float>(), gate.data<float>(), up.data<float>(), dgate.data<float>(), dup.data<float>(),
                         dy.numel());
}

void CpuBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  shapes::check_rope(x, cos, sin, positions);
  const int32_t* position = positions.data<int32_t>();
  if (const auto bad = cpu::first_outside(position, positions.numel(), cos.dim(0)))
    shapes::refuse_position(position[*bad], cos);
  cpu::rope(x.data<float>(), cos.data<float>(), sin.data<float>(), position, backward, x.dim(0), x.dim(1), x.dim(2),
            x.dim(3));
}

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                           Tensor& lse) {
  const AttentionSizes z = shapes::check_attention(q, k, v, attend, y, lse);
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor scratch = empty({omp_get_max_threads(), cpu::attention_scratch(z)});
  cpu::attention(q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend), y.data<float>(), lse.data<float>(),
                 scratch.data<float>(), z);
}

void CpuBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                    Tensor& dv) {
  const AttentionSizes z = shapes::check_attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv);
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor scratch = empty({omp_get_max_threads(), cpu::attention_backward_scratch(z)});
  cpu::attention_backward(dy.data<float>(), q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend),
                          y.data<float>(), lse.data<float>(), dq.data<float>(), dk.data<float>(), dv.data<float>(),
                          scratch.data<float>(), z);
}

void CpuBackend::row_max(const Tensor& logits, Tensor& max) {
  shapes::check_row_max(logits, max);
  cpu::row_max(logits.data<float>(), max.data<float>(), rows_of(logits), logits.dim(-1));
}

void CpuBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  shapes::check_row_sum_exp(logits, max, sum);
  cpu::row_sum_exp(logits.data<float>(), max.data<float>(), sum.data<float>(), rows_of(logits), logits.dim(-1));
}

void CpuBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  shapes::check_pick(logits, targets, picked);
  cpu::pick(logits.data<float>(), targets.data<int32_t>(), begin, picked.data<float>(), rows_of(logits),
            logits.dim(-1));
}

void CpuBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                        int64_t begin, int64_t ignore, float factor) {
  shapes::check_cross_entropy_backward(logits, max, sum, targets);
  cpu::cross_entropy_backward(logits.data<float>(), max.data<float>(), sum.data<float>(), targets.data<int32_t>(),
                              begin, ignore, factor, rows_of(logits), logits.dim(-1));
}

void CpuBackend::adamw(Tensor& value, const Tensor& grad, Tensor& mean, Tensor& square, const AdamWStep& step) {
  shapes::check_adamw(value, grad, mean, square, step);
  cpu::adamw(value.data<float>(), grad.data<float>(), mean.data<float>(), square.data<float>(), step, value.numel());
}

}  // namespace course
