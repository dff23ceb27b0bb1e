#include "common/backend/cuda/cuda_backend.hpp"

#include <sched.h>

#include <new>
#include <type_traits>
#include <utility>

#include "common/backend/cuda/check.hpp"
#include "common/backend/cuda/devices.hpp"
#include "common/backend/cuda/kernels.hpp"
#include "common/backend/cuda/matmul.hpp"
#include "common/backend/scratch.hpp"
#include "common/backend/shapes.hpp"

namespace course {

namespace cuda {

Stream::Stream(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

void Stream::wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

bool Stream::done() const {
  const cudaError_t code = cudaStreamQuery(stream_);
  if (code == cudaErrorNotReady) return false;
  check(code, "cudaStreamQuery");
  return true;
}

Blas::Blas(cudaStream_t stream, bool tf32) {
  check(cublasCreate(&handle_), "cublasCreate");
  set_precision(handle_, tf32);
  check(cublasSetStream(handle_, stream), "cublasSetStream");
}

Blas::~Blas() { cublasDestroy(handle_); }

}  // namespace cuda

using shapes::AttentionSizes;
using shapes::rows_of;

namespace {

// The elements as kernels take them. Throws when T is not the tensor's type.
template <typename T>
T* data(Tensor& x) {
  if constexpr (std::is_same_v<T, cuda::bf16>)
    return reinterpret_cast<cuda::bf16*>(x.data<BFloat16>());
  else
    return x.data<T>();
}
template <typename T>
const T* data(const Tensor& x) {
  return data<T>(const_cast<Tensor&>(x));
}
const int32_t* mask_of(const Tensor* attend) { return attend ? attend->data<int32_t>() : nullptr; }

// Calls f.operator()<T>() with T what kernels know the tensor's elements as: bf16, or else float.
template <typename F>
void by_type(const Tensor& x, F f) {
  if (x.dtype() == DType::BF16)
    f.template operator()<cuda::bf16>();
  else
    f.template operator()<float>();
}

cudaDataType_t blas_type(const Tensor& x) { return x.dtype() == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F; }

void check_head(const AttentionSizes& z) {
  require(z.D <= cuda::kMostHeadSize, "attention: heads of ", z.D, " are more than the ", cuda::kMostHeadSize,
          " that a GPU's kernel takes; use --device cpu");
}

}  // namespace

CudaBackend::CudaBackend(int device, bool tf32)
    : device_(device), stream_(device), memory_(stream_), blas_(stream_, tf32), wrong_position_(nullptr, &cudaFreeHost) {
  void* word = nullptr;
  cuda::check(cudaMallocHost(&word, sizeof(cuda::WrongPosition)), "cudaMallocHost");
  wrong_position_.reset(new (word) cuda::WrongPosition);
}

std::unique_ptr<Backend> make_cuda_backend(int device, bool tf32) {
  const std::string why = cuda::why_no_gpu();
  require_usage(why.empty(), "--device cuda: ", why, "; use --device cpu");
  return std::make_unique<CudaBackend>(device, tf32);
}

const Scratch cuda_scratch = {
    .rms_norm_backward = [](int64_t N, int64_t E) -> int64_t { return 4 * cuda::norm_blocks(N) * E; },
    .attention_backward = [](const AttentionSizes& z, DType) -> int64_t { return 4 * z.B * z.H * z.S; },  // delta
};

Tensor CudaBackend::scratch(Shape shape, DType type) const {
  const MemoryScope scope(MemoryClass::Buffers);
  return Tensor(memory_, std::move(shape), type);
}

// All that was put on the stream is done, and what its kernels found wrong is said.
void CudaBackend::wait() const {
  while (look_ && !stream_.done()) {
    look_();
    sched_yield();
  }
  stream_.wait();
  const cuda::WrongPosition wrong = std::exchange(*wrong_position_, {});
  if (wrong.found) shapes::refuse_position(wrong.position, wrong.table);
}

// The host's memory is anybody's: it may be gone or changed once we return, so both directions wait.
void CudaBackend::copy_in(void* to, const void* host, int64_t bytes) {
  if (bytes == 0) return;
  cuda::check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_), "copy_in");
  wait();
}

void CudaBackend::copy_out(const void* from, void* host, int64_t bytes) const {
  if (bytes == 0) return;
  cuda::check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy_out");
  wait();
}

void CudaBackend::copy(const Tensor& from, Tensor& to) {
  shapes::check_copy(from, to);
  if (to.bytes() == 0) return;
  cuda::check(cudaMemcpyAsync(to.raw(), from.raw(), to.bytes(), cudaMemcpyDeviceToDevice, stream_), "copy");
}

void CudaBackend::copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at,
                              int64_t to_step, int64_t blocks, int64_t block) {
  shapes::check_copy_blocks(from, from_at, from_step, to, to_at, to_step, blocks, block);
  if (blocks == 0 || block == 0) return;
  const int64_t size = size_of(from.dtype());
  cuda::copy_blocks(static_cast<const char*>(from.raw()) + from_at * size, from_step * size,
                    static_cast<char*>(to.raw()) + to_at * size, to_step * size, blocks, block * size, stream_);
}

void CudaBackend::fill(Tensor& x, float value) {
  by_type(x, [&]<typename T>() { cuda::fill(data<T>(x), x.numel(), value, stream_); });
}

void CudaBackend::cast(const Tensor& x, Tensor& y) {
  shapes::check_cast(x, y);
  if (x.dtype() == y.dtype()) return copy(x, y);
  if (x.dtype() == DType::BF16) return cuda::cast(data<cuda::bf16>(x), data<float>(y), x.numel(), stream_);
  cuda::cast(data<float>(x), data<cuda::bf16>(y), x.numel(), stream_);
}

void CudaBackend::add(Tensor& x, const Tensor& y) {
  shapes::check_add(x, y);
  if (x.dtype() == DType::F32 && y.dtype() == DType::BF16)
    return cuda::add(data<float>(x), data<cuda::bf16>(y), x.numel(), stream_);
  by_type(x, [&]<typename T>() { cuda::add(data<T>(x), data<T>(y), x.numel(), stream_); });
}

void CudaBackend::scale(Tensor& x, float factor) {
  by_type(x, [&]<typename T>() { cuda::scale(data<T>(x), x.numel(), factor, stream_); });
}

double CudaBackend::squared_norm(const Tensor& x) const {
  Tensor partial = scratch({cuda::norm_parts(x.numel())}, DType::F64), sum = scratch({1}, DType::F64);
  by_type(x, [&]<typename T>() {
    cuda::squared_norm(data<T>(x), x.numel(), partial.data<double>(), sum.data<double>(), stream_);
  });
  return to_host<double>(sum).front();
}

void CudaBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                         bool accumulate) {
  const auto [M, N, K] = shapes::check_matmul(a, transpose_a, b, transpose_b, c);
  cuda::gemm(blas_, M, N, K, blas_type(a), a.raw(), transpose_a, b.raw(), transpose_b, accumulate, blas_type(c),
             c.raw());
}

void CudaBackend::add_bias(Tensor& y, const Tensor& bias) {
  shapes::check_add_bias(y, bias);
  by_type(y, [&]<typename T>() { cuda::add_bias(data<T>(y), data<T>(bias), rows_of(y), y.dim(-1), stream_); });
}

void CudaBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  shapes::check_sum_rows(dy, dbias);
  Tensor partial = scratch({cuda::sum_parts(rows_of(dy)), dy.dim(-1)});
  by_type(dy, [&]<typename T>() {
    cuda::sum_rows(data<T>(dy), dbias.data<float>(), partial.data<float>(), rows_of(dy), dy.dim(-1), stream_);
  });
}

void CudaBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  shapes::check_embedding(ids, table, y);
  by_type(table, [&]<typename T>() {
    cuda::embedding(ids.data<int32_t>(), data<T>(table), begin, table.dim(0), data<T>(y), ids.numel(), table.dim(1),
                    stream_);
  });
}

void CudaBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  shapes::check_embedding_backward(ids, dy, dtable);
  by_type(dy, [&]<typename T>() {
    cuda::embedding_backward(ids.data<int32_t>(), data<T>(dy), begin, dtable.dim(0), dtable.data<float>(), ids.numel(),
                             dtable.dim(1), stream_);
  });
}

std::optional<int64_t> CudaBackend::first_outside(const Tensor& ids, int64_t end) const {
  const int32_t* values = ids.data<int32_t>();
  if (ids.numel() == 0) return std::nullopt;
  Tensor index = scratch({1}, DType::I64);
  cuda::first_outside(values, ids.numel(), end, index.data<int64_t>(), stream_);
  const int64_t found = to_host<int64_t>(index).front();
  return found < ids.numel() ? std::optional(found) : std::nullopt;
}

void CudaBackend::rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) {
  shapes::check_rms_norm(x, weight, y, rstd);
  by_type(x, [&]<typename T>() {
    cuda::rms_norm(data<T>(x), data<T>(weight), eps, data<T>(y), rstd.data<float>(), rows_of(x), x.dim(-1), stream_);
  });
}

void CudaBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                    Tensor& dx, Tensor& dweight) {
  shapes::check_rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  Tensor partial = scratch({cuda::norm_blocks(rows_of(x)), x.dim(-1)});
  by_type(x, [&]<typename T>() {
    cuda::rms_norm_backward(data<T>(dy), data<T>(x), data<T>(weight), rstd.data<float>(), data<T>(dx),
                            dweight.data<float>(), partial.data<float>(), rows_of(x), x.dim(-1), stream_);
  });
}

void CudaBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  shapes::check_gelu(x, y);
  by_type(x, [&]<typename T>() { cuda::gelu(data<T>(x), kind, data<T>(y), x.numel(), stream_); });
}

void CudaBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  shapes::check_gelu_backward(dy, x, dx);
  by_type(x, [&]<typename T>() {
    cuda::gelu_backward(data<T>(dy), data<T>(x), kind, data<T>(dx), x.numel(), stream_);
  });
}

void CudaBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  shapes::check_silu_mul(gate, up, y);
  by_type(y, [&]<typename T>() { cuda::silu_mul(data<T>(gate), data<T>(up), data<T>(y), y.numel(), stream_); });
}

void CudaBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate,
                                    Tensor& dup) {
  shapes::check_silu_mul_backward(dy, gate, up, dgate, dup);
  by_type(dy, [&]<typename T>() {
    cuda::silu_mul_backward(data<T>(dy), data<T>(gate), data<T>(up), data<T>(dgate), data<T>(dup), dy.numel(),
                            stream_);
  });
}

void CudaBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  shapes::check_rope(x, cos, sin, positions);
  by_type(x, [&]<typename T>() {
    cuda::rope(data<T>(x), cos.data<float>(), sin.data<float>(), positions.data<int32_t>(), cos.dim(0), backward,
               x.dim(0), x.dim(1), x.dim(2), x.dim(3), wrong_position_.get(), stream_);
  });
}

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                            Tensor& lse) {
  const AttentionSizes z = shapes::check_attention(q, k, v, attend, y, lse);
  check_head(z);
  by_type(q, [&]<typename T>() {
    cuda::attention(data<T>(q), data<T>(k), data<T>(v), mask_of(attend), data<T>(y), lse.data<float>(), z, stream_);
  });
}

void CudaBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                     Tensor& dv) {
  const AttentionSizes z = shapes::check_attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv);
  check_head(z);
  Tensor delta = scratch({z.B, z.H, z.S});
  by_type(q, [&]<typename T>() {
    cuda::attention_backward(data<T>(dy), data<T>(q), data<T>(k), data<T>(v), mask_of(attend), data<T>(y),
                             lse.data<float>(), data<T>(dq), data<T>(dk), data<T>(dv), delta.data<float>(), z, stream_);
  });
}

void CudaBackend::row_max(const Tensor& logits, Tensor& max) {
  shapes::check_row_max(logits, max);
  by_type(logits, [&]<typename T>() {
    cuda::row_max(data<T>(logits), max.data<float>(), rows_of(logits), logits.dim(-1), stream_);
  });
}

void CudaBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  shapes::check_row_sum_exp(logits, max, sum);
  by_type(logits, [&]<typename T>() {
    cuda::row_sum_exp(data<T>(logits), max.data<float>(), sum.data<float>(), rows_of(logits), logits.dim(-1), stream_);
  });
}

void CudaBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  shapes::check_pick(logits, targets, picked);
  by_type(logits, [&]<typename T>() {
    cuda::pick(data<T>(logits), targets.data<int32_t>(), begin, picked.data<float>(), rows_of(logits), logits.dim(-1),
               stream_);
  });
}

void CudaBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                         int64_t begin, int64_t ignore, float factor) {
  shapes::check_cross_entropy_backward(logits, max, sum, targets);
  by_type(logits, [&]<typename T>() {
    cuda::cross_entropy_backward(data<T>(logits), max.data<float>(), sum.data<float>(), targets.data<int32_t>(), begin,
                                 ignore, factor, rows_of(logits), logits.dim(-1), stream_);
  });
}

void CudaBackend::adamw(std::span<const AdamWTensors> all, const AdamWStep& step) {
  shapes::check_adamw(all, step);
  for (size_t begin = 0; begin < all.size(); begin += cuda::AdamWPointers::kMost) {
    cuda::AdamWPointers some = {};
    for (const auto& [value, grad, mean, square] :
         all.subspan(begin, std::min<size_t>(cuda::AdamWPointers::kMost, all.size() - begin))) {
      const int i = some.count++;
      some.value[i] = value.data<float>();
      some.grad[i] = grad.data<float>();
      some.mean[i] = mean.data<float>();
      some.square[i] = square.data<float>();
      some.size[i] = value.numel();
    }
    cuda::adamw(some, step, stream_);
  }
}

}  // namespace course
