#include "common/backend/observed.hpp"

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Watched {
  ObservedBackend be{backend()};
  std::vector<Kernel> seen;
  Watched() {
    be.observe([this](const Kernel& kernel) { seen.push_back(kernel); });
  }
  Kernel last() {
    REQUIRE(seen.size() == 1);
    const Kernel kernel = seen[0];
    seen.clear();
    return kernel;
  }
};

void check_kernel(const Kernel& kernel, const std::string& name, double flops, double bytes) {
  CHECK(kernel.name == name);
  CHECK(kernel.flops == flops);
  CHECK(kernel.bytes == bytes);
  CHECK(kernel.begin <= kernel.end);
}

}  // namespace

TEST_CASE("observed: a matmul's work is that of its shapes, whichever side is transposed") {
  Watched w;
  const int64_t B = 2, S = 3, M = B * S, K = 5, N = 7;
  const double flops = 2 * M * N * K, bytes = 4 * (M * K + K * N + M * N);
  Tensor c = random("c", {B, S, N});
  w.be.matmul(random("a", {B, S, K}), false, random("b", {K, N}), false, c);
  check_kernel(w.last(), "matmul", flops, bytes);
  w.be.matmul(random("a", {B, S, K}), false, random("b", {N, K}), true, c);
  check_kernel(w.last(), "matmul", flops, bytes);
  Tensor dw = random("dw", {K, N});
  w.be.matmul(random("a", {B, S, K}), true, random("dy", {B, S, N}), false, dw, true);
  check_kernel(w.last(), "matmul", flops, bytes + 4 * K * N);
  Tensor none = w.be.empty({0, N});
  w.be.matmul(w.be.empty({0, K}), false, random("b", {K, N}), false, none);
  check_kernel(w.last(), "matmul", 0, 4 * K * N);
  Tensor zero = w.be.empty({M, N});
  w.be.matmul(w.be.empty({M, 0}), false, w.be.empty({0, N}), false, zero);
  check_kernel(w.last(), "matmul", 0, 4 * M * N);
}

TEST_CASE("observed: attention counts the pairs that a query sees") {
  Watched w;
  const int64_t B = 2, S = 3, T = 5, H = 4, K = 2, D = 6;
  const Tensor q = random("q", {B, S, H, D}), k = random("k", {B, T, K, D}), v = random("v", {B, T, K, D});
  Tensor y = w.be.empty({B, S, H, D}), lse = w.be.empty({B, H, S});
  w.be.attention(q, k, v, nullptr, y, lse);
  const double pairs = B * H * (3 + 4 + 5);  // the first query stands at key 2 and sees 3
  check_kernel(w.last(), "attention", 4 * D * pairs, 4 * (2 * B * S * H * D + 2 * B * T * K * D + B * H * S));
  Tensor dq = w.be.empty({B, S, H, D}), dk = w.be.empty({B, T, K, D}), dv = w.be.empty({B, T, K, D});
  w.be.attention_backward(random("dy", {B, S, H, D}), q, k, v, nullptr, y, lse, dq, dk, dv);
  check_kernel(w.last(), "attention_backward", 10 * D * pairs, 4 * (4 * B * S * H * D + 4 * B * T * K * D + B * H * S));
}

TEST_CASE("observed: it computes what the inner one does, and tells of nothing that throws") {
  Watched w;
  Tensor x = random("x", {33}), same = random("x", {33});
  const Tensor y = random("y", {33});
  w.be.add(x, y);
  check_kernel(w.last(), "add", 0, 3 * 33 * 4);
  backend().add(same, y);
  CHECK(differs(x, same) == "");
  CHECK(w.be.squared_norm(x) == backend().squared_norm(x));
  check_kernel(w.last(), "squared_norm", 0, 33 * 4);
  CHECK(w.be.first_outside(ints({3, 9, 1}, {3}), 5) == 1);
  check_kernel(w.last(), "first_outside", 0, 3 * 4);
  CHECK_THROWS_WITH(w.be.add(x, random("z", {32})), Catch::Contains("[32]"));
  CHECK(w.seen.empty());
  CHECK(w.be.name() == std::string(backend().name()));
}

TEST_CASE("observed: each observer hears each kernel in order, when its result is there") {
  ObservedBackend be(backend());
  Tensor x = be.zeros({70'000});  // nobody observes yet
  std::vector<std::string> heard;
  double end = 0;
  be.observe([&](const Kernel& kernel) {
    heard.push_back(cat("1 ", kernel.name));
    CHECK(kernel.begin >= end);
    end = kernel.end;
  });
  be.observe([&](const Kernel& kernel) { heard.push_back(cat("2 ", kernel.name, " ", backend().to_host(x)[69'999])); });
  be.fill(x, 2.5F);
  be.scale(x, 2);
  CHECK(heard == std::vector<std::string>{"1 fill", "2 fill 2.5", "1 scale", "2 scale 5"});
}
