// A Backend that tells others what it computes: each kernel's name, work and time. For the end-of-run table, the trace,
// and communication that wants to get on between kernels.
//
//   auto backend = std::make_unique<ObservedBackend>(make_cpu_backend(2));
//   backend->observe([&](const Kernel& kernel) { milliseconds[kernel.name] += 1e3 * (kernel.end - kernel.begin); });
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "common/backend/backend.hpp"

namespace course {

struct Kernel {
  const char* name;  // the function's: "matmul". A literal, so it outlives everything
  // matmul 2·M·N·K; attention 4·D a query-key pair that is seen, backward 10·D; 0 where bytes are the work
  double flops;
  double bytes;       // that it must at least read and write: each argument once, twice where it is both
  double begin, end;  // seconds of the steady clock, on the host; see Times
};

// What `begin` and `end` of a kernel are on a device that works beside the host.
enum class Times {
  OfStart,  // when its start began and was over: costs nothing, says nothing of how long it takes
  OfWork    // when it began and was done: each kernel is waited for, and nothing runs beside another
};

// Around another Backend. What a kernel does, and what it throws, is the inner one's; a kernel that throws is
// not told of. Observers are called on the thread that called the kernel, in the order in which they came, after each
// kernel; one may call kernels itself, and those are told of too. Without observers a kernel costs
// two comparisons and a few multiplications more.
class ObservedBackend : public Backend {
 public:
  explicit ObservedBackend(Backend& inner) : inner_(&inner) {}  // someone else's, which outlives this
  explicit ObservedBackend(std::unique_ptr<Backend> inner) : owned_(std::move(inner)), inner_(owned_.get()) {}
  void observe(std::function<void(const Kernel&)> observer, Times times = Times::OfStart) {
    observers_.push_back(std::move(observer));
    if (times == Times::OfWork) waits_ = true;
  }

  const char* name() const override { return inner_->name(); }
  bool has_bf16() const override { return inner_->has_bf16(); }

  void wait() const override { inner_->wait(); }
  Allocator& memory() override { return inner_->memory(); }
  MemoryUse memory_use() const override { return inner_->memory_use(); }
  void reset_peak() override { inner_->reset_peak(); }
  void copy_in(void* to, const void* host, int64_t bytes) override;
  void copy_out(const void* from, void* host, int64_t bytes) const override;
  Allocator& staging() override { return inner_->staging(); }
  void copy(const Tensor& from, Tensor& to) override;
  void copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at, int64_t to_step,
                   int64_t blocks, int64_t block) override;

  void fill(Tensor& x, float value) override;
  void cast(const Tensor& x, Tensor& y) override;
  void add(Tensor& x, const Tensor& y) override;
  void scale(Tensor& x, float factor) override;
  double squared_norm(const Tensor& x) const override;

  void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
              bool accumulate = false) override;
  void add_bias(Tensor& y, const Tensor& bias) override;
  void sum_rows(const Tensor& dy, Tensor& dbias) override;

  void embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) override;
  void embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) override;
  std::optional<int64_t> first_outside(const Tensor& ids, int64_t end) const override;

  void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) override;
  void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, Tensor& dx,
                         Tensor& dweight) override;

  void gelu(const Tensor& x, Gelu kind, Tensor& y) override;
  void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) override;
  void silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) override;
  void silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) override;

  void rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) override;

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                 Tensor& lse) override;
  void attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend,
                          const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk, Tensor& dv) override;

  void row_max(const Tensor& logits, Tensor& max) override;
  void row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) override;
  void pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) override;
  void cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                              int64_t begin, int64_t ignore, float factor) override;

  void adamw(std::span<const AdamWTensors> all, const AdamWStep& step) override;

 private:
  double now() const;  // seconds_now(), where someone observes
  void tell(const char* name, double begin, double flops, double bytes) const;

  std::unique_ptr<Backend> owned_;
  Backend* inner_;
  std::vector<std::function<void(const Kernel&)>> observers_;
  bool waits_ = false;
};

}  // namespace course
