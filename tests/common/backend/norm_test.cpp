#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("rms_norm: forward, backward against finite differences") {
  Backend& be = backend();
  for (const Shape& shape :
       {Shape{3, 5}, Shape{2, 3, 17}, Shape{1, 1}, Shape{37, 8}, Shape{0, 4}, Shape{3, 0}, Shape{70, 9}}) {
    CAPTURE(show(shape));
    const int64_t E = shape.back(), N = E ? numel(shape) / E : shape[0];
    const double eps = 0.01;
    const Tensor x = random("x", shape, 2), weight = random("weight", {E}), dy = random("dy", shape);
    Tensor y = be.empty(shape), rstd = be.empty({N}), dx = be.empty(shape), dweight = random("dweight", {E});
    const Values xs = values_of(x), ws = values_of(weight), ds = values_of(dy), before = values_of(dweight);
    be.rms_norm(x, weight, eps, y, rstd);
    if (E) CHECK(far(y, twin::rms_norm(xs, ws, eps, E)) == "");
    be.rms_norm_backward(dy, x, weight, rstd, dx, dweight);
    // At E = 1 almost all of it cancels.
    CHECK(far(dx, slope([&](const Values& v) { return dot(ds, twin::rms_norm(v, ws, eps, E)); }, xs),
              E == 1 ? 1e-3 : 1e-5) == "");
    Values slopes = slope([&](const Values& v) { return dot(ds, twin::rms_norm(xs, v, eps, E)); }, ws);
    for (int64_t e = 0; e < E; ++e) slopes[e] += before[e];  // dweight adds
    CHECK(far(dweight, slopes, 1e-5) == "");
  }
}

TEST_CASE("rms_norm: a row of zeros gives zeros") {
  Backend& be = backend();
  const Tensor x = be.zeros({2, 6}), weight = random("weight", {6}), dy = random("dy", {2, 6});
  Tensor y = be.empty({2, 6}), rstd = be.empty({2}), dx = be.empty({2, 6}), dweight = be.zeros({6});
  be.rms_norm(x, weight, 1e-5f, y, rstd);
  be.rms_norm_backward(dy, x, weight, rstd, dx, dweight);
  CHECK(far(y, Values(12)) == "");
  CHECK(far(dweight, Values(6)) == "");
  for (double v : values_of(dx)) CHECK(std::isfinite(v));
}

TEST_CASE("B01: the gradient of RMSNorm's weight") {
  Backend& be = backend();
  const auto B01 = the_case("B01");
  const Tensor X = tensor_of(B01["input"]["X"]), dY = tensor_of(B01["input"]["dY"]), w = be.full({4}, 1);
  Tensor Y = be.empty({4, 4}), rstd = be.empty({4}), dX = be.empty({4, 4}), dW = be.zeros({4});
  be.rms_norm(X, w, 1e-5f, Y, rstd);
  be.rms_norm_backward(dY, X, w, rstd, dX, dW);
  CHECK(far(dW, B01["right"]["dW"].get<Values>(), 1e-6) == "");
}
