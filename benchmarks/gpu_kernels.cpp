// How near each kernel of a GPU's backend comes to what the card can do, one JSON object a line:
//   copy                            the card's own copy: the bandwidth that the others are held against
//   rms_norm, silu_mul, adamw, ...  gb_per_s counts every input read once and every output written once; of_copy the
//                                   fraction
//   matmul                          of_cublas: cuBLAS called alone, over ours
//   ..._of_thread, ..._in_shared    the steps on the way to such kernels (common/backend/cuda/steps.hpp), in f32
//   attention                       microseconds, to stand beside PyTorch's (peer/torch_attention.py)
// What the backend refuses, bf16 say, is a line with its words. Times are those of CUDA's events, the median of some
// rounds.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/backend/cuda/check.hpp"
#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/matmul.hpp"
#include "common/backend/cuda/steps.hpp"
#include "common/rng.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

using Json = nlohmann::ordered_json;

struct Sizes {
  int64_t tokens, hidden, intermediate, vocabulary, B, S, H, K, D, repeats, rounds;
};
constexpr Sizes kArticle = {8192, 768, 3072, 50000, 16, 512, 12, 3, 64, 20, 7};  // a step of it: 16 sequences of 512
constexpr Sizes kSmall = {16, 32, 48, 70, 2, 16, 4, 2, 8, 1, 1};                 // that they run at all

class Event {
 public:
  Event() { cuda::check(cudaEventCreateWithFlags(&event_, 0), "cudaEventCreateWithFlags"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: implicit on purpose

 private:
  cudaEvent_t event_ = nullptr;
};

class Bench {
 public:
  Bench(CudaBackend& be, const Sizes& sizes, DType type) : be_(be), z_(sizes), type_(type) {}

  void run() {
    copy();
    rms_norm();
    silu_mul();
    if (type_ == DType::F32) adamw();  // weights are f32 whatever the activations are
    cross_entropy();
    matmul("hidden to intermediate", z_.tokens, z_.intermediate, z_.hidden);
    matmul("hidden to vocabulary", z_.tokens, z_.vocabulary, z_.hidden);
    attention();
    if (type_ == DType::F32) steps();
  }

 private:
  // Microseconds of one call.
  double time(const std::function<void()>& work) {
    for (int i = 0; i < 2; ++i) work();
    Event begin, end;
    std::vector<double> rounds;
    for (int64_t r = 0; r < z_.rounds; ++r) {
      cuda::check(cudaEventRecord(begin, be_.stream()), "cudaEventRecord");
      for (int64_t i = 0; i < z_.repeats; ++i) work();
      cuda::check(cudaEventRecord(end, be_.stream()), "cudaEventRecord");
      cuda::check(cudaEventSynchronize(end), "cudaEventSynchronize");
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
      rounds.push_back(1e3 * ms / static_cast<double>(z_.repeats));
    }
    std::ranges::nth_element(rounds, rounds.begin() + rounds.size() / 2);
    return rounds[rounds.size() / 2];
  }

  // Numbers that repeat after a million.
  Tensor random(Shape shape, DType type) {
    const Rng rng(3, show(shape));
    const int64_t n = std::min<int64_t>(numel(shape), 1 << 20);
    std::vector<float> values(n);
    std::vector<uint16_t> halves(n);
    for (int64_t i = 0; i < n; ++i) {
      values[i] = static_cast<float>(rng.uniform(i) - 0.5);
      halves[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);  // bf16 is an f32's upper half
    }
    Tensor some = be_.empty({n}, type), x = be_.empty(std::move(shape), type);
    type == DType::F32 ? be_.Backend::copy_in(some, values.data()) : be_.Backend::copy_in(some, halves.data());
    for (int64_t at = 0; at < x.numel(); at += n) be_.copy_blocks(some, 0, n, x, at, n, 1, std::min(n, x.numel() - at));
    return x;
  }
  Tensor random(Shape shape) { return random(std::move(shape), type_); }

  Json row(const std::string& name) const { return {{"name", name}, {"dtype", name_of(type_)}}; }
  static void say(const Json& row) { std::cout << row.dump() << std::endl; }

  // A kernel that does little but move memory.
  void moves(const std::string& name, double bytes, const std::function<void()>& work) {
    Json line = row(name);
    const double us = time(work), rate = bytes / us / 1e3;
    if (name == "copy") copy_rate_ = rate;
    line.update({{"us", us}, {"bytes", bytes}, {"gb_per_s", rate}, {"of_copy", rate / copy_rate_}});
    say(line);
  }

  // Runs a part, or says why not.
  void unless_refused(const std::string& name, const std::function<void()>& part) {
    try {
      part();
    } catch (const Error& error) {
      Json line = row(name);
      line["refused"] = error.what();
      say(line);
    }
  }

  void copy() {
    const Tensor from = random({z_.tokens * 8, z_.hidden});
    Tensor to = be_.empty(from.shape(), type_);
    moves("copy", 2.0 * from.bytes(), [&] { be_.copy(from, to); });
  }

  void rms_norm() {
    unless_refused("rms_norm", [&] {
      const Shape shape = {z_.tokens * 8, z_.hidden};  // more than a cache holds
      const Tensor x = random(shape), w = random({z_.hidden});
      Tensor y = be_.empty(shape, type_), rstd = be_.empty({z_.tokens * 8}), dx = be_.empty(shape, type_),
             dw = be_.zeros({z_.hidden});
      moves("rms_norm", 2.0 * x.bytes(), [&] { be_.rms_norm(x, w, 1e-5f, y, rstd); });
      moves("rms_norm_backward", 3.0 * x.bytes(), [&] { be_.rms_norm_backward(y, x, w, rstd, dx, dw); });
    });
  }

  void silu_mul() {
    unless_refused("silu_mul", [&] {
      const Shape shape = {z_.tokens, z_.intermediate};
      const Tensor gate = random(shape), up = random(shape);
      Tensor y = be_.empty(shape, type_), dgate = be_.empty(shape, type_), dup = be_.empty(shape, type_);
      moves("silu_mul", 3.0 * gate.bytes(), [&] { be_.silu_mul(gate, up, y); });
      moves("silu_mul_backward", 5.0 * gate.bytes(), [&] { be_.silu_mul_backward(y, gate, up, dgate, dup); });
    });
  }

  void adamw() {
    const Shape shape = {z_.vocabulary, z_.hidden};
    Tensor value = random(shape), mean = be_.zeros(shape), square = be_.zeros(shape);
    const Tensor grad = random(shape);
    const AdamWStep step = {1e-3, 0.9, 0.99, 1e-8, 0.1, 5};
    const AdamWTensors all[] = {{value, grad, mean, square}};
    moves("adamw", 7.0 * value.bytes(), [&] { be_.adamw(all, step); });
  }

  void cross_entropy() {
    unless_refused("cross_entropy", [&] {
      const int64_t N = z_.tokens / 2;
      std::vector<int32_t> ids(N);
      for (int64_t i = 0; i < N; ++i) ids[i] = static_cast<int32_t>(i * 7919 % z_.vocabulary);
      const Tensor targets = be_.from_host(ids, {N});
      Tensor logits = random({N, z_.vocabulary}), max = be_.empty({N}), sum = be_.empty({N}), picked = be_.empty({N});
      moves("cross_entropy, forward", 2.0 * logits.bytes(), [&] {
        be_.row_max(logits, max);
        be_.row_sum_exp(logits, max, sum);
        be_.pick(logits, targets, 0, picked);
      });
      moves("cross_entropy, backward", 2.0 * logits.bytes(),
            [&] { be_.cross_entropy_backward(logits, max, sum, targets, 0, -100, 1e-4f); });
    });
  }

  void matmul(const std::string& what, int64_t M, int64_t N, int64_t K) {
    unless_refused("matmul, " + what, [&] {
      const Tensor a = random({M, K}), b = random({N, K});
      Tensor c = be_.empty({M, N}, type_);
      const double alone = cublas_alone(a, b, true, c);
      product(cat("matmul, ", what), a, c, alone, [&] { be_.matmul(a, false, b, true, c, false); });
    });
  }

  // Microseconds of cuBLAS for c [M,N] = a [M,K] · b [K,N], or where b is transposed, [N,K]. It counts rows down a
  // column, so what is a·b to us is bᵀ·aᵀ to it.
  double cublas_alone(const Tensor& a, const Tensor& b, bool transposed, Tensor& c) {
    const cuda::Blas blas(be_.stream());
    const float one = 1, none = 0;
    const int n = static_cast<int>(c.dim(1)), m = static_cast<int>(c.dim(0)), k = static_cast<int>(a.dim(1));
    const cudaDataType_t in = type_ == DType::F32 ? CUDA_R_32F : CUDA_R_16BF;
    return time([&] {
      cuda::check(cublasGemmEx(blas, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b.raw(), in,
                               transposed ? k : n, a.raw(), in, k, &none, c.raw(), in, n, CUBLAS_COMPUTE_32F,
                               CUBLAS_GEMM_DEFAULT),
                  "cublasGemmEx");
    });
  }

  // A matrix product c = a · b beside cuBLAS, which took `alone` microseconds.
  void product(const std::string& name, const Tensor& a, const Tensor& c, double alone,
               const std::function<void()>& work) {
    const int64_t M = c.dim(0), N = c.dim(1), K = a.dim(1);
    const double ours = time(work);
    Json line = row(name);
    line.update({{"shape", cat(M, "x", N, "x", K)}, {"us", ours}, {"tflop_per_s", 2e-6 * M * N * K / ours}});
    line.update({{"cublas_us", alone}, {"of_cublas", alone / ours}});
    say(line);
  }

  void steps() {
    const int64_t N = z_.tokens * 8, E = z_.hidden, M = z_.tokens, I = z_.intermediate;
    const Tensor x = random({N, E}), w = random({E}), a = random({M, E}), b = random({E, I});
    Tensor y = be_.empty({N, E}), rstd = be_.empty({N}), c = be_.empty({M, I});
    for (const auto& [name, step] : {std::pair{"rms_norm_of_thread", &cuda::rms_norm_of_thread},
                                     {"rms_norm_in_shared", &cuda::rms_norm_in_shared},
                                     {"rms_norm_of_warp", &cuda::rms_norm_of_warp}}) {
      moves(name, 2.0 * x.bytes(), [&, step = step] {
        step(x.data<float>(), w.data<float>(), 1e-5f, y.data<float>(), rstd.data<float>(), N, E, be_.stream());
      });
    }
    for (const auto& [name, step] : {std::pair{"softmax_of_thread", &cuda::softmax_of_thread},
                                     {"softmax_in_shared", &cuda::softmax_in_shared},
                                     {"softmax_online", &cuda::softmax_online}}) {
      moves(name, 2.0 * x.bytes(), [&, step = step] { step(x.data<float>(), y.data<float>(), N, E, be_.stream()); });
    }
    const double alone = cublas_alone(a, b, false, c);
    for (const auto& [name, step] : {std::pair{"matmul_of_thread", &cuda::matmul_of_thread},
                                     {"matmul_in_shared", &cuda::matmul_in_shared},
                                     {"matmul_in_registers", &cuda::matmul_in_registers}}) {
      product(name, a, c, alone,
              [&, step = step] { step(a.data<float>(), b.data<float>(), c.data<float>(), M, I, E, be_.stream()); });
    }
  }

  void attention() {
    unless_refused("attention", [&] {
      const Shape query = {z_.B, z_.S, z_.H, z_.D}, key = {z_.B, z_.S, z_.K, z_.D};
      const Tensor q = random(query), k = random(key), v = random(key), dy = random(query);
      Tensor y = be_.empty(query, type_), lse = be_.empty({z_.B, z_.H, z_.S}), dq = be_.empty(query, type_),
             dk = be_.empty(key, type_), dv = be_.empty(key, type_);
      const double forward = time([&] { be_.attention(q, k, v, nullptr, y, lse); });
      const double backward = time([&] { be_.attention_backward(dy, q, k, v, nullptr, y, lse, dq, dk, dv); });
      for (const auto& [name, us] : {std::pair{"attention", forward}, {"attention_backward", backward}}) {
        Json line = row(name);
        line.update({{"shape", cat(show(query), " with ", z_.K, " key/value heads")}, {"us", us}});
        say(line);
      }
    });
  }

  CudaBackend& be_;
  const Sizes z_;
  const DType type_;
  double copy_rate_ = 1;
};

void gpu_kernels(Session& session) {
  std::string type = "f32";
  bool small = false;
  Cli cli("gpu_kernels", "each kernel of a GPU's backend beside what the card can do; one JSON object a line");
  cli.add("--dtype", type, "of the activations").one_of({"f32", "bf16"});
  cli.add("--small", small, "sizes that say nothing, and take no time");
  cli.parse(session);
  auto* backend = dynamic_cast<CudaBackend*>(&session.backend());
  require_usage(backend && session.size() == 1, "gpu_kernels: takes one rank and a GPU");
  Bench(*backend, small ? kSmall : kArticle, type == "f32" ? DType::F32 : DType::BF16).run();
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::gpu_kernels); }
