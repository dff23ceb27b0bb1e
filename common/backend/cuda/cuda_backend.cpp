#include "common/backend/cuda/cuda_backend.hpp"

#include "common/backend/cuda/check.hpp"
#include "common/backend/cuda/devices.hpp"
#include "common/backend/cuda/kernels.hpp"
#include "common/backend/cuda/matmul.hpp"
#include "common/backend/shapes.hpp"

namespace course {

namespace cuda {

Stream::Stream(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

void Stream::wait() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

Blas::Blas(cudaStream_t stream) {
  check(cublasCreate(&handle_), "cublasCreate");
  check(cublasSetStream(handle_, stream), "cublasSetStream");
}

Blas::~Blas() { cublasDestroy(handle_); }

}  // namespace cuda

using shapes::AttentionSizes;
using shapes::rows_of;

namespace {

const int32_t* mask_of(const Tensor* attend) { return attend ? attend->data<int32_t>() : nullptr; }

void check_head(const AttentionSizes& z) {
  require(z.D <= cuda::kMostHeadSize, "attention: heads of ", z.D, " are more than the ", cuda::kMostHeadSize,
          " that a GPU's kernel takes; use --device cpu");
}

}  // namespace

CudaBackend::CudaBackend(int device) : stream_(device), memory_(stream_), blas_(stream_) {}

std::unique_ptr<Backend> make_cuda_backend(int device) {
  const std::string why = cuda::why_no_gpu();
  require_usage(why.empty(), "--device cuda: ", why, "; use --device cpu");
  return std::make_unique<CudaBackend>(device);
}

Tensor CudaBackend::scratch(Shape shape, DType type) const {
  const MemoryScope scope(MemoryClass::Buffers);
  return Tensor(memory_, std::move(shape), type);
}

// The host's memory is anybody's: it may be gone or changed once we return, so both directions wait.
void CudaBackend::copy_in(void* to, const void* host, int64_t bytes) {
  if (bytes == 0) return;
  cuda::check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_), "copy_in");
  stream_.wait();
}

void CudaBackend::copy_out(const void* from, void* host, int64_t bytes) const {
  if (bytes == 0) return;
  cuda::check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy_out");
  stream_.wait();
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

void CudaBackend::fill(Tensor& x, float value) { cuda::fill(x.data<float>(), x.numel(), value, stream_); }

void CudaBackend::add(Tensor& x, const Tensor& y) {
  shapes::check_add(x, y);
  cuda::add(x.data<float>(), y.data<float>(), x.numel(), stream_);
}

void CudaBackend::scale(Tensor& x, float factor) { cuda::scale(x.data<float>(), x.numel(), factor, stream_); }

double CudaBackend::squared_norm(const Tensor& x) const {
  Tensor partial = scratch({cuda::norm_parts(x.numel())}, DType::F64), sum = scratch({1}, DType::F64);
  cuda::squared_norm(x.data<float>(), x.numel(), partial.data<double>(), sum.data<double>(), stream_);
  return to_host<double>(sum).front();
}

void CudaBackend::matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                         bool accumulate) {
  const auto [M, N, K] = shapes::check_matmul(a, transpose_a, b, transpose_b, c);
  cuda::gemm(blas_, M, N, K, a.data<float>(), transpose_a, b.data<float>(), transpose_b, accumulate, c.data<float>());
}

void CudaBackend::add_bias(Tensor& y, const Tensor& bias) {
  shapes::check_add_bias(y, bias);
  cuda::add_bias(y.data<float>(), bias.data<float>(), rows_of(y), y.dim(-1), stream_);
}

void CudaBackend::sum_rows(const Tensor& dy, Tensor& dbias) {
  shapes::check_sum_rows(dy, dbias);
  Tensor partial = scratch({cuda::sum_parts(rows_of(dy)), dy.dim(-1)});
  cuda::sum_rows(dy.data<float>(), dbias.data<float>(), partial.data<float>(), rows_of(dy), dy.dim(-1), stream_);
}

void CudaBackend::embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) {
  shapes::check_embedding(ids, table, y);
  cuda::embedding(ids.data<int32_t>(), table.data<float>(), begin, table.dim(0), y.data<float>(), ids.numel(),
                  table.dim(1), stream_);
}

void CudaBackend::embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) {
  shapes::check_embedding_backward(ids, dy, dtable);
  Tensor next = scratch({ids.numel()}, DType::I64), first = scratch({ids.numel()}, DType::I32);
  cuda::embedding_backward(ids.data<int32_t>(), dy.data<float>(), begin, dtable.dim(0), dtable.data<float>(),
                           next.data<int64_t>(), first.data<int32_t>(), ids.numel(), dtable.dim(1), stream_);
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
  cuda::rms_norm(x.data<float>(), weight.data<float>(), eps, y.data<float>(), rstd.data<float>(), rows_of(x), x.dim(-1),
                 stream_);
}

void CudaBackend::rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                    Tensor& dx, Tensor& dweight) {
  shapes::check_rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  Tensor partial = scratch({cuda::norm_blocks(rows_of(x)), x.dim(-1)});
  cuda::rms_norm_backward(dy.data<float>(), x.data<float>(), weight.data<float>(), rstd.data<float>(), dx.data<float>(),
                          dweight.data<float>(), partial.data<float>(), rows_of(x), x.dim(-1), stream_);
}

void CudaBackend::gelu(const Tensor& x, Gelu kind, Tensor& y) {
  shapes::check_gelu(x, y);
  cuda::gelu(x.data<float>(), kind, y.data<float>(), x.numel(), stream_);
}

void CudaBackend::gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) {
  shapes::check_gelu_backward(dy, x, dx);
  cuda::gelu_backward(dy.data<float>(), x.data<float>(), kind, dx.data<float>(), x.numel(), stream_);
}

void CudaBackend::silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) {
  shapes::check_silu_mul(gate, up, y);
  cuda::silu_mul(gate.data<float>(), up.data<float>(), y.data<float>(), y.numel(), stream_);
}

void CudaBackend::silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate,
                                    Tensor& dup) {
  shapes::check_silu_mul_backward(dy, gate, up, dgate, dup);
  cuda::silu_mul_backward(dy.data<float>(), gate.data<float>(), up.data<float>(), dgate.data<float>(),
                          dup.data<float>(), dy.numel(), stream_);
}

void CudaBackend::rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) {
  shapes::check_rope(x, cos, sin, positions);
  if (const auto bad = first_outside(positions, cos.dim(0)))
    shapes::refuse_position(to_host<int32_t>(positions)[*bad], cos);
  cuda::rope(x.data<float>(), cos.data<float>(), sin.data<float>(), positions.data<int32_t>(), backward, x.dim(0),
             x.dim(1), x.dim(2), x.dim(3), stream_);
}

void CudaBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y,
                            Tensor& lse) {
  const AttentionSizes z = shapes::check_attention(q, k, v, attend, y, lse);
  check_head(z);
  cuda::attention(q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend), y.data<float>(),
                  lse.data<float>(), z, stream_);
}

void CudaBackend::attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor* attend, const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk,
                                     Tensor& dv) {
  const AttentionSizes z = shapes::check_attention_backward(dy, q, k, v, attend, y, lse, dq, dk, dv);
  check_head(z);
  Tensor delta = scratch({z.B, z.H, z.S});
  cuda::attention_backward(dy.data<float>(), q.data<float>(), k.data<float>(), v.data<float>(), mask_of(attend),
                           y.data<float>(), lse.data<float>(), dq.data<float>(), dk.data<float>(), dv.data<float>(),
                           delta.data<float>(), z, stream_);
}

void CudaBackend::row_max(const Tensor& logits, Tensor& max) {
  shapes::check_row_max(logits, max);
  cuda::row_max(logits.data<float>(), max.data<float>(), rows_of(logits), logits.dim(-1), stream_);
}

void CudaBackend::row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) {
  shapes::check_row_sum_exp(logits, max, sum);
  cuda::row_sum_exp(logits.data<float>(), max.data<float>(), sum.data<float>(), rows_of(logits), logits.dim(-1),
                    stream_);
}

void CudaBackend::pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) {
  shapes::check_pick(logits, targets, picked);
  cuda::pick(logits.data<float>(), targets.data<int32_t>(), begin, picked.data<float>(), rows_of(logits),
             logits.dim(-1), stream_);
}

void CudaBackend::cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                         int64_t begin, int64_t ignore, float factor) {
  shapes::check_cross_entropy_backward(logits, max, sum, targets);
  cuda::cross_entropy_backward(logits.data<float>(), max.data<float>(), sum.data<float>(), targets.data<int32_t>(),
                               begin, ignore, factor, rows_of(logits), logits.dim(-1), stream_);
}

void CudaBackend::adamw(Tensor& value, const Tensor& grad, Tensor& mean, Tensor& square, const AdamWStep& step) {
  shapes::check_adamw(value, grad, mean, square, step);
  cuda::AdamWTensors one = {};
  one.value[0] = value.data<float>();
  one.grad[0] = grad.data<float>();
  one.mean[0] = mean.data<float>();
  one.square[0] = square.data<float>();
  one.size[0] = value.numel();
  one.count = 1;
  cuda::adamw(one, step, stream_);
}

}  // namespace course
