#include "common/tensor.hpp"

#include <cmath>
#include <set>

#include "common/box.hpp"
#include "common/chunk.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("a tensor knows its shape, moves, and refuses what does not fit") {
  Tensor x = make({2, 3, 4}, [](int64_t i) { return float(i); });
  CHECK(x.numel() == 24);
  CHECK(x.bytes() == 96);
  CHECK(x.dim(-1) == 4);
  CHECK_THROWS_WITH(x.dim(3), Catch::Contains("[2,3,4]") && Catch::Contains("3"));
  CHECK_THROWS_WITH(x.data<int32_t>(), Catch::Contains("f32") && Catch::Contains("i32"));
  const void* memory = x.raw();
  Tensor y = std::move(x).reshape({6, 4});
  CHECK(y.raw() == memory);
  CHECK_FALSE(x.defined());
  CHECK_THROWS_WITH(std::move(y).reshape({5, 5}), Catch::Contains("[6,4]") && Catch::Contains("[5,5]"));
  CHECK(backend().to_host(y)[23] == 23);
  CHECK(backend().empty({3, 0, 2}).numel() == 0);
  CHECK(backend().empty({}).numel() == 1);
  CHECK_THROWS_WITH(backend().empty({2, -1}), Catch::Contains("[2,-1]"));
}

TEST_CASE("chunks are torch.chunk's, with blocks too") {
  CHECK(chunk_sizes(5, 4) == std::vector<int64_t>{2, 2, 1, 0});
  CHECK(chunk_sizes(16, 6) == std::vector<int64_t>{3, 3, 3, 3, 3, 1});
  CHECK(chunk_sizes(768, 2, 256) == std::vector<int64_t>{512, 256});
  CHECK(chunk_sizes(0, 3) == std::vector<int64_t>{0, 0, 0});
  CHECK(chunk(5, 4, 3) == Chunk{5, 0});
  CHECK_THROWS_WITH(chunk(10, 2, 0, 4), Catch::Contains("10") && Catch::Contains("4"));
  CHECK_THROWS_AS(chunk(10, 2, 2), Error);
}

TEST_CASE("boxes share what they share") {
  const Box a{{0, 2}, {3, 4}}, b{{1, 0}, {4, 3}};
  REQUIRE(intersect(a, b));
  CHECK(*intersect(a, b) == Box{{1, 2}, {2, 1}});
  CHECK_FALSE(intersect(a, Box{{3, 0}, {2, 9}}));
  CHECK(cut(b, 0, 1, 2) == Box{{2, 0}, {2, 3}});
  CHECK_THROWS_AS(cut(b, 1, 2, 2), Error);
  CHECK(show(a) == "[0:3,2:6]");

  // Global [5,7] numbered 0..34: every element of the common part arrives, nothing else is touched.
  std::vector<float> from, to(12, -1);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 2; c < 6; ++c) from.push_back(float(r * 7 + c));
  copy_shared(a, from.data(), b, to.data(), sizeof(float));
  CHECK(to == std::vector<float>{-1, -1, 9, -1, -1, 16, -1, -1, -1, -1, -1, -1});
}

TEST_CASE("the generator is Philox4x32-10, by its authors' known answers") {
  // Random123's kat_vectors.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox4x32({f, f, f, f}, {f, f}) == std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("draws depend on seed, name and index alone, and are spread as they should be") {
  const Rng a(1, "layers.0.weight"), same(1, "layers.0.weight"), name(1, "layers.1.weight"), seed(2, "layers.0.weight");
  std::set<uint32_t> seen;
  double sum = 0, normal = 0, squares = 0;
  const int64_t n = 20000;
  for (int64_t i = 0; i < n; ++i) {
    CHECK_FALSE(a.bits(i) != same.bits(i));
    seen.insert({a.bits(i), name.bits(i), seed.bits(i)});
    sum += a.uniform(i);
    normal += a.normal(i);
    squares += a.normal(i) * a.normal(i);
  }
  CHECK(seen.size() > 3 * n - 10);
  CHECK(std::abs(sum / n - 0.5) < 0.01);
  CHECK(std::abs(normal / n) < 0.03);
  CHECK(std::abs(squares / n - 1) < 0.05);
}
