// The processor's backend: oneDNN (or plain loops) for matrix products, OpenMP for the rest.
#pragma once

#include "common/backend/backend.hpp"
#include "common/backend/cpu/pool.hpp"

namespace course {

// What each function means stands in Backend. This class checks the shapes and calls the kernels (kernels.hpp).
class CpuBackend : public Backend {
 public:
  // All kernels of this process then use so many threads: it is OpenMP's setting. threads ≥ 1.
  explicit CpuBackend(int threads);

  const char* name() const override { return "cpu"; }
  bool has_bf16() const override;

  void wait() const override {}
  Allocator& memory() override { return pool_; }
  MemoryUse memory_use() const override { return pool_.use(); }
  void reset_peak() override { pool_.reset_peak(); }
  void copy_in(void* to, const void* host, int64_t bytes) override;
  void copy_out(const void* from, void* host, int64_t bytes) const override;
  Allocator& staging() override { return pool_; }
  void copy(const Tensor& from, Tensor& to) override;
  void copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at, int64_t to_step,
                   int64_t blocks, int64_t block) override;

  void fill(Tensor& x, float value) override;
  void cast(const Tensor& x, Tensor& y) override;
  void add(Tensor& x, const Tensor& y) override;
  void scale(Tensor& x, float factor) override;
  double squared_norm(const Tensor& x) const override;

  void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
              bool accumulate) override;
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
  Pool pool_;
};

}  // namespace course
