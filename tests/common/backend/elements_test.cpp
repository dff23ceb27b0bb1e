#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {
const std::vector<int64_t> kSizes = {0, 1, 7, 33, 4099, 70001};
}

TEST_CASE("elements: fill, add, scale") {
  Backend& be = backend();
  for (int64_t n : kSizes) {
    CAPTURE(n);
    Tensor x = random("x", {n}), y = random("y", {n});
    Values sum = values_of(x), scaled = values_of(y);
    for (int64_t i = 0; i < n; ++i) sum[i] += scaled[i];
    for (double& v : scaled) v *= -0.37;
    be.add(x, y);
    CHECK(far(x, sum) == "");
    be.scale(y, -0.37f);
    CHECK(far(y, scaled) == "");
    be.fill(y, 2.5f);
    CHECK(far(y, Values(n, 2.5), 0) == "");
  }
}

TEST_CASE("elements: squared_norm sums in double") {
  Backend& be = backend();
  for (int64_t n : kSizes) {
    CAPTURE(n);
    const Tensor x = random("x", {n});
    CHECK(be.squared_norm(x) == Approx(dot(values_of(x), values_of(x))).epsilon(1e-12));
  }
  // In f32 the ones would vanish beside the first.
  CHECK(be.squared_norm(make({1001}, [](int64_t i) { return i ? 1.0f : 1e5f; })) == 1e10 + 1000);
  CHECK(std::isnan(be.squared_norm(make({100}, [](int64_t i) { return i == 51 ? NAN : 1.0f; }))));
}

TEST_CASE("elements: bias and its gradient, over any leading dims") {
  Backend& be = backend();
  for (const Shape& shape :
       {Shape{5, 3}, Shape{2, 7, 129}, Shape{300, 65}, Shape{1, 1}, Shape{0, 4}, Shape{4, 0}, Shape{700, 70}}) {
    CAPTURE(show(shape));
    const int64_t E = shape.back();
    Tensor y = random("y", shape), bias = random("bias", {E}), dbias = random("dbias", {E});
    const Values before = values_of(y), b = values_of(bias);
    Values twin = before, sums = values_of(dbias);  // sum_rows adds to what is there
    for (size_t i = 0; i < twin.size(); ++i) twin[i] += b[i % E];
    for (size_t i = 0; i < twin.size(); ++i) sums[i % E] += before[i];
    be.sum_rows(y, dbias);
    CHECK(far(dbias, sums, 1e-5) == "");
    be.add_bias(y, bias);
    CHECK(far(y, twin) == "");
  }
}

TEST_CASE("copies: to the host and back, and between tensors, of any dtype") {
  Backend& be = backend();
  const Tensor x = random("x", {3, 5});
  CHECK(differs(be.clone(x), x) == "");
  const std::vector<int64_t> longs = {1, -2, int64_t{1} << 40};
  CHECK(be.to_host<int64_t>(be.clone(be.from_host(longs, {3}))) == longs);
  const std::vector<uint16_t> halves = {1, 2, 3, 4, 5, 6};
  Tensor h = be.empty({6}, DType::BF16), g = be.empty({6}, DType::BF16);
  std::vector<uint16_t> back(6);
  be.copy_in(h, halves.data());
  be.copy(h, g);
  be.copy_out(g, back.data());
  CHECK(back == halves);
  Tensor part = be.slice(h, 0, 2, 3);
  be.copy_out(part, back.data());
  CHECK(back == std::vector<uint16_t>{3, 4, 5, 4, 5, 6});
  const Tensor large = random("large", {1 << 20});
  CHECK(differs(be.clone(large), large) == "");
  CHECK(be.to_host(be.clone(be.empty({0, 3}))).empty());
}

TEST_CASE("copies: a slice of each dim") {
  Backend& be = backend();
  const Shape shape = {3, 4, 70};
  const Tensor x = random("x", shape);
  const std::vector<float> from = be.to_host(x);
  for (int64_t dim = 0; dim < 3; ++dim) {
    Tensor to = random("to", {dim == 0 ? 9 : 3, dim == 1 ? 9 : 4, dim == 2 ? 99 : 70});
    std::vector<float> twin = be.to_host(to);
    auto index = [](const Shape& s, int64_t a, int64_t b, int64_t c) { return (a * s[1] + b) * s[2] + c; };
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 4; ++b)
        for (int64_t c = 0; c < 70; ++c) {
          int64_t at[3] = {a, b, c};
          if (at[dim] < 1 || at[dim] >= 3) continue;
          at[dim] += 4;
          twin[index(to.shape(), at[0], at[1], at[2])] = from[index(shape, a, b, c)];
        }
    be.copy_slice(x, 1, to, 5, dim, 2);
    CHECK(differs(be.to_host(to), twin, to.shape()) == "");
  }
}

TEST_CASE("copies: blocks with steps of their own") {
  Backend& be = backend();
  const Tensor x = random("x", {50});
  Tensor y = be.zeros({60});
  std::vector<float> from = be.to_host(x), twin(60);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 3; ++j) twin[1 + i * 5 + j] = from[2 + i * 11 + j];
  be.copy_blocks(x, 2, 11, y, 1, 5, 4, 3);
  CHECK(differs(be.to_host(y), twin, {60}) == "");
  be.copy_blocks(x, 45, -11, y, 0, 3, 4, 3);  // backwards: the last run starts at 12
  CHECK(be.to_host(y)[9] == from[12]);
  be.copy_blocks(x, 999, 1, y, 0, 1, 0, 3);  // no runs: nothing to refuse
  CHECK_THROWS_WITH(be.copy_blocks(x, 2, 16, y, 1, 5, 4, 3), Catch::Contains("leave [50]"));
  CHECK_THROWS_AS(be.copy_blocks(x, 13, -11, y, 1, 5, 3, 3), Error);
  CHECK_THROWS_AS(be.copy_blocks(x, 0, 1, y, 58, 1, 1, 3), Error);
}
