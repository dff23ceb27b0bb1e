// A GPU's backend: cuBLAS for matrix products, kernels of our own for the rest.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <functional>
#include <utility>

#include "common/backend/backend.hpp"
#include "common/backend/cuda/device_memory.hpp"

namespace course {

namespace cuda {

// The order of work on a device: what is put on a stream is done one after another, and the host goes on meanwhile.
class Stream {
 public:
  explicit Stream(int device);  // makes the device the calling thread's
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: implicit on purpose
  void wait() const;                                 // until all is done; throws Error if something has failed
  bool done() const;                                 // the same, asked once

 private:
  cudaStream_t stream_ = nullptr;
};

// cuBLAS, on a stream. tf32 as in set_precision (matmul.hpp).
class Blas {
 public:
  explicit Blas(cudaStream_t stream, bool tf32 = false);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  operator cublasHandle_t() const { return handle_; }  // NOLINT: implicit on purpose

 private:
  cublasHandle_t handle_ = nullptr;
};

struct WrongPosition;  // kernels.hpp

}  // namespace cuda

// What each function means stands in Backend. This class checks the shapes and starts the kernels (kernels.hpp), all on
// one stream; only what gives the host a value waits for it. A kernel that fails is found by a later call, and so is a
// position of rope() outside its tables: the next copy_in or copy_out throws.
class CudaBackend : public Backend {
 public:
  // The device counts among those that this process sees, from 0.
  explicit CudaBackend(int device, bool tf32 = false);

  const char* name() const override { return "cuda"; }
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  // Called again and again while the host waits for the device, so that it can throw: else nothing ends a wait for a device
  // that waits for another rank. Null: nobody. Gives back who was called before.
  std::function<void()> while_waiting(std::function<void()> look) { return std::exchange(look_, std::move(look)); }

  void wait() const override;
  Allocator& memory() override { return memory_; }
  MemoryUse memory_use() const override { return memory_.use(); }
  void reset_peak() override { memory_.reset_peak(); }
  void copy_in(void* to, const void* host, int64_t bytes) override;
  void copy_out(const void* from, void* host, int64_t bytes) const override;
  Allocator& staging() override { return staging_; }
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

  // Heads of up to 256.
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
  Tensor scratch(Shape shape, DType type = DType::F32) const;

  int device_;
  cuda::Stream stream_;
  mutable DeviceMemory memory_;  // functions that change nothing need room too
  Pool staging_{pinned_blocks()};
  cuda::Blas blas_;
  std::unique_ptr<cuda::WrongPosition, decltype(&cudaFreeHost)> wrong_position_;
  std::function<void()> look_;
};

}  // namespace course
