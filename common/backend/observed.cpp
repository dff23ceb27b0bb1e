#include "common/backend/observed.hpp"

#include <chrono>

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

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Body, typename CostOf>
void ObservedBackend::run(const char* name, const Body& body, const CostOf& cost) const {
  if (observers_.empty()) return body();
  const double begin = seconds_now();
  body();
  const double end = seconds_now();
  const Cost work = cost();
  const Kernel kernel = {name, work.flops, work.bytes, begin, end};
  for (const auto& tell : observers_) tell(kernel);
}

void ObservedBackend::copy_in(Tensor& to, const void* host) {
  run(
      "copy_in", [&] { inner_->copy_in(to, host); },
      [&] {
        return Cost{0, bytes_of(to, to)};
      });
}

void ObservedBackend::copy_out(const Tensor& from, void* host) const {
  run(
      "copy_out", [&] { inner_->copy_out(from, host); },
      [&] {
        return Cost{0, bytes_of(from, from)};
      });
}

void ObservedBackend::copy(const Tensor& from, Tensor& to) {
  run(
      "copy", [&] { inner_->copy(from, to); },
      [&] {
        return Cost{0, bytes_of(from, to)};
      });
}

void ObservedBackend::copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at,
                                  int64_t to_step, int64_t blocks, int64_t block) {
  run(
      "copy_blocks", [&] { inner_->copy_blocks(from, from_at, from_step, to, to_at, to_step, blocks, block); },
      [&] {
        return Cost{0, 2.0 * static_cast<double>(blocks * block * size_of(from.dtype()))};
      });
}

void ObservedBackend::fill(Tensor& x, float value) {
  run(
      "fill", [&] { inner_->fill(x, value); },
      [&] {
        return Cost{0, bytes_of(x)};
      });
}

void ObservedBackend::add(Tensor& x, const Tensor& y) {
  run(
      "add", [&] { inner_->add(x, y); },
      [&] {
        return Cost{0, bytes_of(x, x, y)};
      });
}

void ObservedBackend::scale(Tensor& x, float factor) {
  run(
      "scale", [&] { inner_->scale(x, factor); },
      [&] {
        return Cost{0, bytes_of(x, x)};
      });
}

double ObservedBackend::squared_norm(const Tensor& x) const {
  double sum = 0;
  run(
      "squared_norm", [&] { sum = inner_->squared_norm(x); },
      [&] {
        return Cost{0, bytes_of(x)};
      });
  return sum;
}

void ObservedBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                             bool accumulate) {
  run(
      "matmul", [&] { inner_->matmul(a, transpose_a, b, transpose_b, c, accumulate); },
      [&] {
        const int64_t K = transpose_b ? b.dim(-1) : b.dim(-1) == 0 ? 0 : b.numel() / b.dim(-1);
        const double flops = 2.0 * static_cast<double>(c.numel()) * static_cast<double>(K);
        return Cost{flops, bytes_of(a, b, c) + (accumulate ? bytes_of(c) : 0)};
      });
}

void ObservedBackend::add_bias(Tensor& y, const Tensor& bias) {
  run(
      "add_bias", [&] { inner_->add_bias(y, bias); },
      [&] {
        return Cost{0, bytes_of(y, y, bias)};
      });
}

void ObservedBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  run(
      "sum_rows", [&] { inner_->sum_rows(dy, dbias); },
      [&] {
        return Cost{0, bytes_of(dy, dbias, dbias)};
      });
}

void ObservedBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  run(
      "embedding", [&] { inner_->embedding(ids, table, begin, y); },
      [&] {
        return Cost{0, bytes_of(ids, y, y)};
      });
}

void ObservedBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  run(
      "embedding_backward", [&] { inner_->embedding_backward(ids, dy, begin, dtable); },
      [&] {
        return Cost{0, bytes_of(ids, dy, dy, dy)};
      });
}

std::optional<int64_t> ObservedBackend::first_outside(const Tensor& ids, int64_t end) const {
  std::optional<int64_t> first;
  run(
      "first_outside", [&] { first = inner_->first_outside(ids, end); },
      [&] {
        return Cost{0, bytes_of(ids)};
      });
  return first;
}

void ObservedBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  run(
      "rms_norm", [&] { inner_->rms_norm(x, weight, eps, y, rstd); },
      [&] {
        return Cost{0, bytes_of(x, weight, y, rstd)};
      });
}

void ObservedBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                        Tensor& dx, Tensor& dweight) {
  run(
      "rms_norm_backward", [&] { inner_->rms_norm_backward(dy, x, weight, rstd, dx, dweight); },
      [&] {
        return Cost{0, bytes_of(dy, x, weight, rstd, dx, dweight, dweight)};
      });
}

void ObservedBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  run(
      "gelu", [&] { inner_->gelu(x, kind, y); },
      [&] {
        return Cost{0, bytes_of(x, y)};
      });
}

void ObservedBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  run(
      "gelu_backward", [&] { inner_->gelu_backward(dy, x, kind, dx); },
      [&] {
        return Cost{0, bytes_of(dy, x, dx)};
      });
}

void ObservedBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  run(
      "silu_mul", [&] { inner_->silu_mul(gate, up, y); },
      [&] {
        return Cost{0, bytes_of(gate, up, y)};
      });
}

void ObservedBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate,
                                        Tensor& dup) {
  run(
      "silu_mul_backward", [&] { inner_->silu_mul_backward(dy, gate, up, dgate, dup); },
      [&] {
        return Cost{0, bytes_of(dy, gate, up, dgate, dup)};
      });
}

void ObservedBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  run(
      "rope", [&] { inner_->rope(x, cos, sin, positions, backward); },
      [&] {
        return Cost{0, bytes_of(x, x, positions)};
      });
}

void ObservedBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                                Tensor& lse) {
  run(
      "attention", [&] { inner_->attention(q, k, v, attend, y, lse); },
      [&] {
        return Cost{4 * seen_pairs(q, k) * static_cast<double>(q.dim(3)), bytes_of(q, k, v, y, lse)};
      });
}

void ObservedBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq,
                                         Tensor& dk, Tensor& dv) {
  run(
      "attention_backward", [&] { inner_->attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv); },
      [&] {
        return Cost{10 * seen_pairs(q, k) * static_cast<double>(q.dim(3)), bytes_of(dy, q, k, v, y, lse, dq, dk, dv)};
      });
}

void ObservedBackend::row_max(const Tensor& logits, Tensor& max) {
  run(
      "row_max", [&] { inner_->row_max(logits, max); },
      [&] {
        return Cost{0, bytes_of(logits, max)};
      });
}

void ObservedBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  run(
      "row_sum_exp", [&] { inner_->row_sum_exp(logits, max, sum); },
      [&] {
        return Cost{0, bytes_of(logits, max, sum)};
      });
}

void ObservedBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  run(
      "pick", [&] { inner_->pick(logits, targets, begin, picked); },
      [&] {
        return Cost{0, bytes_of(targets, picked, picked)};
      });
}

void ObservedBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum,
                                             const Tensor& targets, int64_t begin, int64_t ignore, float factor) {
  run(
      "cross_entropy_backward",
      [&] { inner_->cross_entropy_backward(logits, max, sum, targets, begin, ignore, factor); },
      [&] {
        return Cost{0, bytes_of(logits, logits, max, sum, targets)};
      });
}

void ObservedBackend::adamw(Tensor& value, const Tensor& grad, Tensor& mean, Tensor& square, const AdamWStep& step) {
  run(
      "adamw", [&] { inner_->adamw(value, grad, mean, square, step); },
      [&] {
        return Cost{0, bytes_of(value, value, grad, mean, mean, square, square)};
      });
}

}  // namespace course
