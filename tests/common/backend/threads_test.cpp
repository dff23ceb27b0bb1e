// Equal inputs give equal bits, with one thread or two. ThreadSanitizer runs this: a kernel that is not here it does
// not see.
#include <omp.h>

#include "common/backend/cpu/cpu_backend.hpp"
#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

class Threads {
 public:
  explicit Threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

// The outputs of every kernel that splits work over threads, on sizes worth a split. `type`: of activations and weights.
std::vector<Tensor> outputs(Backend& be, int threads, DType type = DType::F32) {
  const Threads set(threads);
  auto input32 = [&](const char* name, Shape shape) {
    const Rng rng(9, name);
    std::vector<float> values(numel(shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = rng.uniform(i) - 0.4;
    return be.from_host(values, std::move(shape));
  };
  auto input = [&](const char* name, Shape shape) { return be.in_type(input32(name, std::move(shape)), type); };
  std::vector<Tensor> out;
  {
    const Tensor x = input("x", {601, 130}), dy = input("dy", {601, 130}), w = input("w", {130});
    Tensor y = be.empty_like(x), rstd = be.empty({601}), dx = be.empty_like(x), dw = be.zeros({130}),
           db = be.zeros({130});
    be.rms_norm(x, w, 1e-5f, y, rstd);
    be.rms_norm_backward(dy, x, w, rstd, dx, dw);
    be.sum_rows(dy, db);
    const Tensor norm = be.full({1}, static_cast<float>(be.squared_norm(x)));
    out.push_back(be.clone(norm));
    for (Tensor* t : {&y, &rstd, &dx, &dw, &db}) out.push_back(std::move(*t));
  }
  {
    const Ints ids = random_ints("ids", 601, 0, 50);
    Tensor table = be.zeros({40, 130}), rows = be.empty({601, 130}, type);
    be.embedding(be.from_host(ids, {601}), input("table", {40, 130}), 5, rows);
    be.embedding_backward(be.from_host(ids, {601}), input("dy", {601, 130}), 5, table);
    for (Tensor* t : {&rows, &table}) out.push_back(std::move(*t));
  }
  {
    Tensor x = input("x", {3, 150, 4, 16});
    const Tensor cos = input32("cos", {150, 8}), sin = input32("sin", {150, 8}),
                 positions = be.from_host(random_ints("positions", 150, 0, 150), {150});
    be.rope(x, cos, sin, positions, false);
    out.push_back(be.clone(x));
    be.rope(x, cos, sin, positions, true);
    out.push_back(std::move(x));
  }
  {
    const Tensor q = input("q", {3, 150, 4, 16}), k = input("k", {3, 160, 2, 16}), v = input("v", {3, 160, 2, 16});
    Tensor y = be.empty_like(q), lse = be.empty({3, 4, 150}), dq = be.empty_like(q), dk = be.empty_like(k),
           dv = be.empty_like(v);
    be.attention(q, k, v, nullptr, y, lse);
    be.attention_backward(q, q, k, v, nullptr, y, lse, dq, dk, dv);
    for (Tensor* t : {&y, &lse, &dq, &dk, &dv}) out.push_back(std::move(*t));
  }
  {
    const Tensor x = input("x", {70000}), dy = input("dy", {70000});
    Tensor y = be.empty_like(x), dx = be.empty_like(x), du = be.empty_like(x);
    be.silu_mul(x, dy, y);
    be.silu_mul_backward(dy, x, y, dx, du);
    for (Tensor* t : {&y, &dx, &du}) out.push_back(std::move(*t));
    for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
      Tensor g = be.empty_like(x), dg = be.empty_like(x);
      be.gelu(x, kind, g);
      be.gelu_backward(dy, x, kind, dg);
      for (Tensor* t : {&g, &dg}) out.push_back(std::move(*t));
    }
  }
  {
    const Tensor x = input("x", {700, 300}), bias = input("bias", {300});  // large enough that copies are split too
    Tensor sum = be.clone(x), part = be.slice(x, 1, 10, 200);
    be.add(sum, x);
    be.scale(sum, 0.3f);
    be.add_bias(sum, bias);
    for (Tensor* t : {&sum, &part}) out.push_back(std::move(*t));
  }
  {
    Tensor value = input32("value", {70000}), mean = be.zeros({70000}), square = be.zeros({70000});
    const Tensor grad = input32("grad", {70000});
    const AdamWTensors all[] = {{value, grad, mean, square}};
    be.adamw(all, {1e-3, 0.9, 0.99, 1e-8, 0.1, 3});
    for (Tensor* t : {&value, &mean, &square}) out.push_back(std::move(*t));
  }
  {
    Tensor logits = input("logits", {130, 300}), max = be.empty({130}), sum = be.empty({130});
    be.row_max(logits, max);
    be.row_sum_exp(logits, max, sum);
    be.cross_entropy_backward(logits, max, sum, be.from_host(random_ints("targets", 130, 0, 300), {130}), 0, 7, 0.1f);
    for (Tensor* t : {&logits, &max, &sum}) out.push_back(std::move(*t));
  }
  for (const bool transposed : {false, true}) {
    const Tensor a = input("a", {301, 301}), b = input("b", {301, 301});
    Tensor c = be.empty({301, 301}, type);
    be.matmul(a, transposed, b, !transposed, c);
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

TEST_CASE("threads: one or two give the same bits, and so does a second time") {
  const int before = omp_get_max_threads();
  CpuBackend be(before);
  for (const DType type : {DType::F32, DType::BF16}) {
    const std::vector<Tensor> one = outputs(be, 1, type), two = outputs(be, 2, type), again = outputs(be, 2, type);
    for (size_t i = 0; i < one.size(); ++i) {
      CAPTURE(i, show(one[i].shape()), name_of(type));
      CHECK(differs(be.floats(two[i]), be.floats(one[i]), one[i].shape()) == "");
      CHECK(differs(be.floats(again[i]), be.floats(two[i]), one[i].shape()) == "");
    }
  }
}

TEST_CASE("threads: the backend takes at least one, and a repeated step asks the system for nothing") {
  CHECK_THROWS_WITH(CpuBackend(0), Catch::Contains("0 threads"));
  CpuBackend be(omp_get_max_threads());
  outputs(be, 2);
  const int64_t taken = be.memory_use().from_system;
  outputs(be, 2);
  CHECK(be.memory_use().from_system == taken);
  CHECK(be.memory_use().now == 0);
}

TEST_CASE("cpu backend: kernels refuse a type they do not take, and name it") {
  CpuBackend be(omp_get_max_threads());
  Tensor half = be.empty({2, 3}, DType::BF16), f = be.zeros({2, 3});
  CHECK_THROWS_WITH(be.add(half, f), Catch::Contains("bf16"));
  CHECK_THROWS_WITH(be.gelu(half, Gelu::Tanh, f), Catch::Contains("bf16"));
  CHECK_THROWS_WITH(be.copy(half, f), Catch::Contains("bf16") && Catch::Contains("f32"));
  CHECK_THROWS_WITH(be.embedding(f, f, 0, f), Catch::Contains("[2,3]"));
  CHECK_THROWS_WITH(be.add(f, be.zeros({3, 2})), Catch::Contains("[3,2]"));
}
