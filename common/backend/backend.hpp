// What a device must be able to compute: one virtual function a kernel. Layers are written once, on top of this.
//
// Letters: N rows (all leading dims together), E features, V vocabulary, B batch, S queries, T keys, H query heads,
// K key/value heads, D head size. All tensors live on this backend's device and are owned by the caller. Outputs are
// written over; "adds" marks those that accumulate. Any size may be 0.
// Types: activations, their gradients and weights are all f32 or, in one call, all bf16. Always f32: what sums (the
// gradients of weights: dtable, dweight, dbias), statistics (rstd, lse, max, sum, picked), tables of rope, and all of
// adamw. Whatever the types, sums inside a kernel are f32 or finer; a bf16 result is rounded once, to nearest even.
// A wrong shape throws Error with the shapes. Equal inputs give equal bits: no kernel depends on the order of threads.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/tensor.hpp"

namespace course {

// Bytes in live tensors, counted as they are made and freed. What a matrix-product library or MPI takes for itself is not in it.
struct MemoryUse {
  int64_t now = 0, peak = 0;     // of all; the peak since reset_peak()
  BytesByClass now_of, peak_of;  // of each class; the classes may peak at different moments
  BytesByClass at_peak;          // what each held when all together were at their peak: adds up to `peak`
  int64_t from_system = 0;       // bytes the pool took from the system so far; a steady step adds none

  void allocated(int64_t bytes, MemoryClass what);
  void released(int64_t bytes, MemoryClass what);
  void reset_peak();
};

enum class Gelu { Exact, Tanh };  // x·Φ(x), and its tanh approximation. Hendrycks and Gimpel, arXiv:1606.08415

// One step of AdamW (Loshchilov and Hutter, arXiv:1711.05101). `step` counts from 1.
struct AdamWStep {
  double lr, beta1, beta2, eps, weight_decay;
  int64_t step;
};
// What it works on: a parameter, its gradient, and the means of the gradient and of its square. Equal sizes.
struct AdamWTensors {
  Tensor& value;
  const Tensor& grad;
  Tensor &mean, &square;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;  // "cpu"
  virtual bool has_bf16() const { return true; }  // false: products of bf16 are right here, but slower than those of f32
  // Until all that was started is done. A device that works beside the host starts a kernel and returns; only what hands
  // the host a value waits. Throws Error where one has failed.
  virtual void wait() const = 0;

  // Memory
  virtual Allocator& memory() = 0;
  virtual MemoryUse memory_use() const = 0;
  virtual void reset_peak() = 0;
  virtual void copy_in(void* to, const void* host, int64_t bytes) = 0;           // from the host into this device's memory
  virtual void copy_out(const void* from, void* host, int64_t bytes) const = 0;  // from there to the host
  void copy_in(Tensor& to, const void* host) { copy_in(to.raw(), host, to.bytes()); }
  void copy_out(const Tensor& from, void* host) const { copy_out(from.raw(), host, from.bytes()); }
  virtual Allocator& staging() = 0;  // memory of the host that the two above are quickest with
  virtual void copy(const Tensor& from, Tensor& to) = 0;          // equal shapes

  Tensor empty(Shape shape, DType type = DType::F32) { return Tensor(memory(), std::move(shape), type); }
  Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype()); }
  Tensor in_type(Tensor x, DType type);  // x itself where it is of that type, else a cast copy
  Tensor full(Shape shape, float value);
  Tensor zeros(Shape shape) { return full(std::move(shape), 0); }
  Tensor clone(const Tensor& x);
  template <typename T>
  Tensor from_host(std::span<const T> values, Shape shape) {
    Tensor x = empty(std::move(shape), dtype_of<T>());
    require(x.numel() == static_cast<int64_t>(values.size()), values.size(), " values for shape ", show(x.shape()));
    copy_in(x, values.data());
    return x;
  }
  template <typename T>
  Tensor from_host(const std::vector<T>& values, Shape shape) {
    return from_host(std::span<const T>(values), std::move(shape));
  }
  template <typename T = float>
  std::vector<T> to_host(const Tensor& x) const {
    require(x.dtype() == dtype_of<T>(), "a tensor of ", name_of(x.dtype()), " was read as ", name_of(dtype_of<T>()));
    std::vector<T> values(x.numel());
    copy_out(x, values.data());
    return values;
  }

  std::vector<float> floats(const Tensor& x);  // to_host of f32 or bf16

  // Copies `blocks` runs of `block` elements; run i goes from element from_at + i·from_step to to_at + i·to_step. Any dtype.
  // Throws when a run leaves either tensor.
  virtual void copy_blocks(const Tensor& from, int64_t from_at, int64_t from_step, Tensor& to, int64_t to_at, int64_t to_step,
                           int64_t blocks, int64_t block) = 0;
  // Copies `count` indices of dim `dim`, from from_begin on, to to_begin on. The other dims are equal. Any dtype.
  void copy_slice(const Tensor& from, int64_t from_begin, Tensor& to, int64_t to_begin, int64_t dim, int64_t count);
  Tensor slice(const Tensor& x, int64_t dim, int64_t begin, int64_t count);  // a copy of part of x

  // Elements
  virtual void fill(Tensor& x, float value) = 0;
  virtual void cast(const Tensor& x, Tensor& y) = 0;             // y = x between f32 and bf16; equal types: a copy
  virtual void add(Tensor& x, const Tensor& y) = 0;              // x += y; an f32 x takes either type of y
  virtual void scale(Tensor& x, float factor) = 0;               // x *= factor
  virtual double squared_norm(const Tensor& x) const = 0;        // Σ x², summed in double

  // c [M,N] = op(a) op(b), or adds with accumulate. a and b are of one type, c of that or f32. Leading dims of a and b fold into rows: [B,S,E] counts as [B·S,E].
  virtual void matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, Tensor& c,
                      bool accumulate = false) = 0;
  virtual void add_bias(Tensor& y, const Tensor& bias) = 0;      // y [N,E] += bias [E]
  virtual void sum_rows(const Tensor& dy, Tensor& dbias) = 0;    // dbias [E] adds Σ_n dy [N,E]

  // Embedding on rows begin..begin+R of the vocabulary: table [R,E]. ids [N] i32; y [N,E] is 0 where an id lies outside.
  virtual void embedding(const Tensor& ids, const Tensor& table, int64_t begin, Tensor& y) = 0;
  virtual void embedding_backward(const Tensor& ids, const Tensor& dy, int64_t begin, Tensor& dtable) = 0;  // adds
  virtual std::optional<int64_t> first_outside(const Tensor& ids, int64_t end) const = 0;  // index of the first id not in 0..end-1

  // y = x / sqrt(mean(x²) + eps) · weight, by row of E. rstd [N] is kept for backward. Zhang and Sennrich, arXiv:1910.07467
  virtual void rms_norm(const Tensor& x, const Tensor& weight, float eps, Tensor& y, Tensor& rstd) = 0;
  virtual void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, Tensor& dx,
                                 Tensor& dweight) = 0;  // dweight adds

  virtual void gelu(const Tensor& x, Gelu kind, Tensor& y) = 0;
  virtual void gelu_backward(const Tensor& dy, const Tensor& x, Gelu kind, Tensor& dx) = 0;
  virtual void silu_mul(const Tensor& gate, const Tensor& up, Tensor& y) = 0;  // silu(gate)·up; Shazeer, arXiv:2002.05202
  virtual void silu_mul_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) = 0;

  // Turns element i with element i + D/2 by the angle of its position, in place (half-split form). x [B,S,H,D],
  // cos and sin [P,D/2], positions [S] i32 in 0..P-1: another one throws, a GPU's at the next copy to or from the host.
  // Backward turns the other way. Su et al., arXiv:2104.09864
  virtual void rope(Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& positions, bool backward) = 0;

  // Causal attention, softmax(q kᵀ / sqrt(D)) v, query head h with key/value head h / (H/K). q, y [B,S,H,D], k, v [B,T,K,D],
  // T ≥ S: query i stands at key T - S + i and sees the keys up to there. attend [B,T] i32, or null: 0 hides a key, and a
  // query that stands on it sees nothing and gives 0. lse [B,H,S] (log of the row's sum of exponentials) is kept for
  // backward. Memory beyond the arguments is linear in T. Dao et al., arXiv:2205.14135
  virtual void attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend, Tensor& y, Tensor& lse) = 0;
  virtual void attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* attend,
                                  const Tensor& y, const Tensor& lse, Tensor& dq, Tensor& dk, Tensor& dv) = 0;

  // Softmax and cross-entropy on columns begin..begin+R of the vocabulary: logits [N,R], targets [N] i32.
  virtual void row_max(const Tensor& logits, Tensor& max) = 0;                                 // max [N]; -inf where R is 0
  virtual void row_sum_exp(const Tensor& logits, const Tensor& max, Tensor& sum) = 0;          // sum [N] = Σ exp(l - max)
  virtual void pick(const Tensor& logits, const Tensor& targets, int64_t begin, Tensor& picked) = 0;  // 0 where outside
  // logits become their gradient: (exp(l - max)/sum - [column is the target]) · factor; a row of target `ignore` becomes 0.
  virtual void cross_entropy_backward(Tensor& logits, const Tensor& max, const Tensor& sum, const Tensor& targets,
                                      int64_t begin, int64_t ignore, float factor) = 0;

  virtual void adamw(std::span<const AdamWTensors> all, const AdamWStep& step) = 0;
};

// The processor's backend: oneDNN for matrix products, OpenMP for the rest. threads ≥ 1.
std::unique_ptr<Backend> make_cpu_backend(int threads);
// The GPUs that this process sees; 0 where the build has no CUDA or the machine no driver.
int cuda_devices();
// Which card device 0..cuda_devices()-1 is: its PCI address, the same in every process of the machine.
std::string cuda_device_id(int device);
// Device 0..cuda_devices()-1. tf32: products of f32 matrices may round their factors to 10 bits of mantissa. Throws
// UsageError, with what is missing, where there is none.
std::unique_ptr<Backend> make_cuda_backend(int device, bool tf32 = false);

}  // namespace course
