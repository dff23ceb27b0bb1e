#include "common/backend/observed.hpp"

#include "common/clock.hpp"

namespace course {
namespace {

template <typename... Tensors>
double bytes_of(const Tensors&... tensors) {
  return static_cast<double>((int64_t{0} + ... + tensors.bytes()));
}

// Query i of S stands at key T - S + i and sees the keys up to there.
double seen_pairs(const Tensor& q, const Tensor& k) {
  const int64_t B = q.dim(0), S = q.dim(1), H = q.dim(2), T = k.dim(1);
  return static_cast<double>(B * H) * (static_cast<double>(S * (T - S)) + static_cast<double>(S * (S + 1)) / 2);
}

}  // namespace

double ObservedBackend::now() const { return observers_.empty() ? 0 : seconds_now(); }

void ObservedBackend::tell(const char* name, double begin, double flops, double bytes) const {
  if (observers_.empty()) return;
  if (waits_) inner_->wait();
  const Kernel kernel = {name, flops, bytes, begin, seconds_now()};
  for (const auto& observer : observers_) observer(kernel);
}

void ObservedBackend::copy_in(void* to, const void* host, int64_t bytes) {
  const double t = now();
  inner_->copy_in(to, host, bytes);
  tell("copy_in", t, 0, 2.0 * static_cast<double>(bytes));
}

void ObservedBackend::copy_out(const void* from, void* host, int64_t bytes) const {
  const double t = now();
  inner_->copy_out(from, host, bytes);
  tell("copy_out", t, 0, 2.0 * static_cast<double>(bytes));
}

void ObservedBackend::copy(const Tensor& from, Tensor& to) {
  const double t = now();
  inner_->copy(from, to);
  tell("copy", t, 0, bytes_of(from, to));
}

void ObservedBackend::copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at,
                                  int64_t to_step, int64_t blocks, int64_t block) {
  const double t = now();
  inner_->copy_blocks(from, from_at, from_step, to, to_at, to_step, blocks, block);
  tell("copy_blocks", t, 0, 2.0 * static_cast<double>(blocks * block * size_of(from.dtype())));
}

void ObservedBackend::fill(Tensor& x, float value) {
  const double t = now();
  inner_->fill(x, value);
  tell("fill", t, 0, bytes_of(x));
}

void ObservedBackend::cast(const Tensor& x, Tensor& y) {
  const double t = now();
  inner_->cast(x, y);
  tell("cast", t, 0, bytes_of(x, y));
}

void ObservedBackend::add(Tensor& x, const Tensor& y) {
  const double t = now();
  inner_->add(x, y);
  tell("add", t, 0, bytes_of(x, x, y));
}

void ObservedBackend::scale(Tensor& x, float factor) {
  const double t = now();
  inner_->scale(x, factor);
  tell("scale", t, 0, bytes_of(x, x));
}

double ObservedBackend::squared_norm(const Tensor& x) const {
  const double t = now();
  const double sum = inner_->squared_norm(x);
  tell("squared_norm", t, 0, bytes_of(x));
  return sum;
}

void ObservedBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                             bool accumulate) {
  const double t = now();
  inner_->matmul(a, transpose_a, b, transpose_b, c, accumulate);
  const int64_t K = transpose_b ? b.dim(-1) : b.dim(-1) == 0 ? 0 : b.numel() / b.dim(-1);
  const double flops = 2.0 * static_cast<double>(c.numel()) * static_cast<double>(K);
  tell("matmul", t, flops, bytes_of(a, b, c) + (accumulate ? bytes_of(c) : 0));
}

void ObservedBackend::add_bias(Tensor& y, const Tensor& bias) {
  const double t = now();
  inner_->add_bias(y, bias);
  tell("add_bias", t, 0, bytes_of(y, y, bias));
}

void ObservedBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  const double t = now();
  inner_->sum_rows(dy, dbias);
  tell("sum_rows", t, 0, bytes_of(dy, dbias, dbias));
}

void ObservedBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  const double t = now();
  inner_->embedding(ids, table, begin, y);
  tell("embedding", t, 0, bytes_of(ids, y, y));
}

void ObservedBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  const double t = now();
  inner_->embedding_backward(ids, dy, begin, dtable);
  tell("embedding_backward", t, 0, bytes_of(ids, dy, dy, dy));
}

std::optional<int64_t> ObservedBackend::first_outside(const Tensor& ids, int64_t end) const {
  const double t = now();
  const std::optional<int64_t> first = inner_->first_outside(ids, end);
  tell("first_outside", t, 0, bytes_of(ids));
  return first;
}

void ObservedBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  const double t = now();
  inner_->rms_norm(x, weight, eps, y, rstd);
  tell("rms_norm", t, 0, bytes_of(x, weight, y, rstd));
}

void ObservedBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                        Tensor& dx, Tensor& dweight) {
  const double t = now();
  inner_->rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  tell("rms_norm_backward", t, 0, bytes_of(dy, x, weight, rstd, dx, dweight, dweight));
}

void ObservedBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  const double t = now();
  inner_->gelu(x, kind, y);
  tell("gelu", t, 0, bytes_of(x, y));
}

void ObservedBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  const double t = now();
  inner_->gelu_backward(dy, x, kind, dx);
  tell("gelu_backward", t, 0, bytes_of(dy, x, dx));
}

void ObservedBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  const double t = now();
  inner_->silu_mul(gate, up, y);
  tell("silu_mul", t, 0, bytes_of(gate, up, y));
}

void ObservedBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate,
                                        Tensor& dup) {
  const double t = now();
  inner_->silu_mul_backward(dy, gate, up, dgate, dup);
  tell("silu_mul_backward", t, 0, bytes_of(dy, gate, up, dgate, dup));
}

void ObservedBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  const double t = now();
  inner_->rope(x, cos, sin, positions, backward);
  tell("rope", t, 0, bytes_of(x, x, positions));
}

void ObservedBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                                Tensor& lse) {
  const double t = now();
  inner_->attention(q, k, v, attend, y, lse);
  tell("attention", t, 4 * seen_pairs(q, k) * static_cast<double>(q.dim(3)), bytes_of(q, k, v, y, lse));
}

void ObservedBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq,
                                         Tensor& dk, Tensor& dv) {
  const double t = now();
  inner_->attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv);
  tell("attention_backward", t, 10 * seen_pairs(q, k) * static_cast<double>(q.dim(3)),
       bytes_of(dy, q, k, v, y, lse, dq, dk, dv));
}

void ObservedBackend::row_max(const Tensor& logits, Tensor& max) {
  const double t = now();
  inner_->row_max(logits, max);
  tell("row_max", t, 0, bytes_of(logits, max));
}

void ObservedBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  const double t = now();
  inner_->row_sum_exp(logits, max, sum);
  tell("row_sum_exp", t, 0, bytes_of(logits, max, sum));
}

void ObservedBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  const double t = now();
  inner_->pick(logits, targets, begin, picked);
  tell("pick", t, 0, bytes_of(targets, picked, picked));
}

void ObservedBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum,
                                             const Tensor& targets, int64_t begin, int64_t ignore, float factor) {
  const double t = now();
  inner_->cross_entropy_backward(logits, max, sum, targets, begin, ignore, factor);
  tell("cross_entropy_backward", t, 0, bytes_of(logits, logits, max, sum, targets));
}

void ObservedBackend::adamw(std::span<const AdamWTensors> all, const AdamWStep& step) {
  const double t = now();
  inner_->adamw(all, step);
  double bytes = 0;
  for (const auto& [value, grad, mean, square] : all) bytes += bytes_of(value, value, grad, mean, mean, square, square);
  tell("adamw", t, 0, bytes);
}

}  // namespace course
