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

// Calls f<T> with T the type of x's elements; any type but bf16 counts as f32, and data() refuses what is not.
template <typename F>
auto of_type(const Tensor& x, F f) {
  return x.dtype() == DType::BF16 ? f.template operator()<BFloat16>() : f.template operator()<float>();
}

const int32_t* mask_of(const Tensor* attend) { return attend ? attend->data<int32_t>() : nullptr; }

}  // namespace

CpuBackend::CpuBackend(int threads) {
  require(threads >= 1, "a backend of ", threads, " threads");
  omp_set_num_threads(threads);
}

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

const Scratch cpu_scratch = {
    .rms_norm_backward = [](int64_t N, int64_t E) -> int64_t { return 4 * cpu::norm_blocks(N) * E; },
    .attention_backward = [](const shapes::AttentionSizes& z, DType type) -> int64_t {
      const auto of_thread = type == DType::F32 ? cpu::attention_backward_scratch<float> : cpu::attention_backward_scratch<BFloat16>;
      return 4 * omp_get_max_threads() * of_thread(z);
    },
};

bool CpuBackend::has_bf16() const { return cpu::half_is_fast(); }

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

void CpuBackend::fill(Tensor& x, float value) {
  of_type(x, [&]<typename T>() { cpu::fill(x.data<T>(), x.numel(), value); });
}

void CpuBackend::cast(const Tensor& x, Tensor& y) {
  shapes::check_cast(x, y);
  if (x.dtype() == y.dtype()) return copy(x, y);
  if (x.dtype() == DType::F32)
    cpu::cast(x.data<float>(), y.data<BFloat16>(), x.numel());
  else
    cpu::cast(x.data<BFloat16>(), y.data<float>(), x.numel());
}

void CpuBackend::add(Tensor& x, const Tensor& y) {
  shapes::check_add(x, y);
  if (x.dtype() == DType::BF16) return cpu::add(x.data<BFloat16>(), y.data<BFloat16>(), x.numel());
  of_type(y, [&]<typename T>() { cpu::add(x.data<float>(), y.data<T>(), x.numel()); });
}

void CpuBackend::scale(Tensor& x, float factor) {
  of_type(x, [&]<typename T>() { cpu::scale(x.data<T>(), x.numel(), factor); });
}

double CpuBackend::squared_norm(const Tensor& x) const {
  return of_type(x, [&]<typename T>() { return cpu::squared_norm(x.data<T>(), x.numel()); });
}

void CpuBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                        bool accumulate) {
  const auto [M, N, K] = shapes::check_matmul(a, transpose_a, b, transpose_b, c);
  if (a.dtype() == DType::BF16)
    of_type(c, [&, M = M, N = N, K = K]<typename T>() {
      cpu::gemm(M, N, K, {a.data<BFloat16>(), a.dim(-1), transpose_a}, {b.data<BFloat16>(), b.dim(-1), transpose_b},
                accumulate, c.data<T>(), N);
    });
  else
    cpu::gemm(M, N, K, 1, {a.data<float>(), a.dim(-1), transpose_a}, {b.data<float>(), b.dim(-1), transpose_b},
              accumulate, c.data<float>(), N);
}

void CpuBackend::add_bias(Tensor& y, const Tensor& bias) {
  shapes::check_add_bias(y, bias);
  of_type(y, [&]<typename T>() { cpu::add_bias(y.data<T>(), bias.data<T>(), rows_of(y), y.dim(-1)); });
}

void CpuBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  shapes::check_sum_rows(dy, dbias);
  of_type(dy, [&]<typename T>() { cpu::sum_rows(dy.data<T>(), dbias.data<float>(), rows_of(dy), dy.dim(-1)); });
}

void CpuBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  shapes::check_embedding(ids, table, y);
  of_type(y, [&]<typename T>() {
    cpu::embedding(ids.data<int32_t>(), table.data<T>(), begin, table.dim(0), y.data<T>(), ids.numel(), table.dim(1));
  });
}

void CpuBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  shapes::check_embedding_backward(ids, dy, dtable);
  of_type(dy, [&]<typename T>() {
    cpu::embedding_backward(ids.data<int32_t>(), dy.data<T>(), begin, dtable.dim(0), dtable.data<float>(), ids.numel(),
                            dtable.dim(1));
  });
}

std::optional<int64_t> CpuBackend::first_outside(const Tensor& ids, int64_t end) const {
  return cpu::first_outside(ids.data<int32_t>(), ids.numel(), end);
}

void CpuBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  shapes::check_rms_norm(x, weight, y, rstd);
  of_type(x, [&]<typename T>() {
    cpu::rms_norm(x.data<T>(), weight.data<T>(), eps, y.data<T>(), rstd.data<float>(), rows_of(x), x.dim(-1));
  });
}

void CpuBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                   Tensor& dx, Tensor& dweight) {
  shapes::check_rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor partial = empty({cpu::norm_blocks(rows_of(x)), x.dim(-1)});
  of_type(x, [&]<typename T>() {
    cpu::rms_norm_backward(dy.data<T>(), x.data<T>(), weight.data<T>(), rstd.data<float>(), dx.data<T>(),
                           dweight.data<float>(), partial.data<float>(), rows_of(x), x.dim(-1));
  });
}

void CpuBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  shapes::check_gelu(x, y);
  of_type(x, [&]<typename T>() { cpu::gelu(x.data<T>(), kind, y.data<T>(), x.numel()); });
}

void CpuBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  shapes::check_gelu_backward(dy, x, dx);
  of_type(x, [&]<typename T>() { cpu::gelu_backward(dy.data<T>(), x.data<T>(), kind, dx.data<T>(), x.numel()); });
}

void CpuBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  shapes::check_silu_mul(gate, up, y);
  of_type(y, [&]<typename T>() { cpu::silu_mul(gate.data<T>(), up.data<T>(), y.data<T>(), y.numel()); });
}

void CpuBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) {
  shapes::check_silu_mul_backward(dy, gate, up, dgate, dup);
  of_type(dy, [&]<typename T>() {
    cpu::silu_mul_backward(dy.data<T>(), gate.data<T>(), up.data<T>(), dgate.data<T>(), dup.data<T>(), dy.numel());
  });
}

void CpuBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  shapes::check_rope(x, cos, sin, positions);
  const int32_t* position = positions.data<int32_t>();
  if (const auto bad = cpu::first_outside(position, positions.numel(), cos.dim(0)))
    shapes::refuse_position(position[*bad], cos);
  of_type(x, [&]<typename T>() {
    cpu::rope(x.data<T>(), cos.data<float>(), sin.data<float>(), position, backward, x.dim(0), x.dim(1), x.dim(2),
              x.dim(3));
  });
}

void CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                           Tensor& lse) {
  const AttentionSizes z = shapes::check_attention(q, k, v, attend, y, lse);
  const MemoryScope scope(MemoryClass::Buffers);
  of_type(q, [&]<typename T>() {
    Tensor scratch = empty({omp_get_max_threads(), cpu::attention_scratch<T>(z)});
    cpu::attention(q.data<T>(), k.data<T>(), v.data<T>(), mask_of(attend), y.data<T>(), lse.data<float>(),
                   scratch.data<float>(), z);
  });
}

void CpuBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                    Tensor& dv) {
  const AttentionSizes z = shapes::check_attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv);
  const MemoryScope scope(MemoryClass::Buffers);
  of_type(q, [&]<typename T>() {
    Tensor scratch = empty({omp_get_max_threads(), cpu::attention_backward_scratch<T>(z)});
    cpu::attention_backward(dy.data<T>(), q.data<T>(), k.data<T>(), v.data<T>(), mask_of(attend), y.data<T>(),
                            lse.data<float>(), dq.data<T>(), dk.data<T>(), dv.data<T>(), scratch.data<float>(), z);
  });
}

void CpuBackend::row_max(const Tensor& logits, Tensor& max) {
  shapes::check_row_max(logits, max);
  of_type(logits, [&]<typename T>() {
    cpu::row_max(logits.data<T>(), max.data<float>(), rows_of(logits), logits.dim(-1));
  });
}

void CpuBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  shapes::check_row_sum_exp(logits, max, sum);
  of_type(logits, [&]<typename T>() {
    cpu::row_sum_exp(logits.data<T>(), max.data<float>(), sum.data<float>(), rows_of(logits), logits.dim(-1));
  });
}

void CpuBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  shapes::check_pick(logits, targets, picked);
  of_type(logits, [&]<typename T>() {
    cpu::pick(logits.data<T>(), targets.data<int32_t>(), begin, picked.data<float>(), rows_of(logits), logits.dim(-1));
  });
}

void CpuBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                        int64_t begin, int64_t ignore, float factor) {
  shapes::check_cross_entropy_backward(logits, max, sum, targets);
  of_type(logits, [&]<typename T>() {
    cpu::cross_entropy_backward(logits.data<T>(), max.data<float>(), sum.data<float>(), targets.data<int32_t>(), begin,
                                ignore, factor, rows_of(logits), logits.dim(-1));
  });
}

void CpuBackend::adamw(std::span<const AdamWTensors> all, const AdamWStep& step) {
  shapes::check_adamw(all, step);
  for (const auto& [value, grad, mean, square] : all)
    cpu::adamw(value.data<float>(), grad.data<float>(), mean.data<float>(), square.data<float>(), step, value.numel());
}

}  // namespace course
