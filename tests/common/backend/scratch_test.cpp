// What a backend says that a kernel takes for itself is what the kernel takes: a step's memory formula is built on it.
#include "common/backend/scratch.hpp"

#include <functional>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

namespace {

const Scratch& scratch() { return scratch_of(backend().memory().device()); }

// The most that was held at once during the call, above what was held before it.
int64_t taken_by(const std::function<void()>& call) {
  const int64_t before = backend().memory_use().now;
  backend().reset_peak();
  call();
  CHECK(backend().memory_use().now == before);
  return backend().memory_use().peak - before;
}

}  // namespace

TEST_CASE("scratch: the embedding's gradient takes nothing") {
  for (const int64_t N : {0, 1, 300}) {
    CAPTURE(N);
    const Tensor ids = backend().from_host(std::vector<int32_t>(N, 2), {N}), dy = random("dy", {N, 5});
    Tensor dtable = backend().zeros({7, 5});
    CHECK(taken_by([&] { backend().embedding_backward(ids, dy, 0, dtable); }) == 0);
  }
}

TEST_CASE("scratch: RMSNorm's gradient takes what the backend says, for few rows and for many") {
  for (const int64_t N : {1, 17, 600, 5000}) {
    CAPTURE(N);
    const Tensor x = random("x", {N, 6}), dy = random("dy", {N, 6}), weight = random("weight", {6}),
                 rstd = backend().full({N}, 1);
    Tensor dx = backend().empty({N, 6}), dweight = backend().zeros({6});
    CHECK(taken_by([&] { backend().rms_norm_backward(dy, x, weight, rstd, dx, dweight); }) ==
          scratch().rms_norm_backward(N, 6));
  }
}

TEST_CASE("scratch: attention's gradient takes what the backend says, with as many keys as queries and with more") {
  constexpr int64_t B = 2, H = 4, K = 2, D = 8;
  const DType type = GENERATE(DType::F32, DType::BF16);
  const auto input = [&](const char* name, Shape shape) { return backend().in_type(random(name, std::move(shape)), type); };
  for (const auto& [S, T] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 3}, {3, 70}, {130, 130}}) {
    CAPTURE(name_of(type), S, T);
    const Tensor q = input("q", {B, S, H, D}), k = input("k", {B, T, K, D}), v = input("v", {B, T, K, D});
    const Tensor dy = input("dy", {B, S, H, D});
    Tensor y = backend().empty_like(q), lse = backend().empty({B, H, S});
    Tensor dq = backend().empty_like(q), dk = backend().empty_like(k), dv = backend().empty_like(v);
    backend().attention(q, k, v, nullptr, y, lse);
    CHECK(taken_by([&] { backend().attention_backward(dy, q, k, v, nullptr, y, lse, dq, dk, dv); }) ==
          scratch().attention_backward({B, S, T, H, K, D}, type));
  }
}
