#include "common/backend/cpu/simd_math.hpp"

#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

using namespace course;

namespace {

// The largest relative error over many arguments in ±range; 1e-37 keeps denormal results out.
double worst(float (*f)(float), double (*exact)(double), double range) {
  double worst = 0;
  for (int i = -200000; i <= 200000; ++i) {
    const float x = static_cast<float>(range * i / 200000);
    const double want = exact(x);
    worst = std::max(worst, std::abs(f(x) - want) / (std::abs(want) + 1e-37));
  }
  return worst;
}

const float inf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("simd_math: exp, tanh, erf to a few units in the last place") {
  CHECK(worst(cpu::exp, std::exp, 87) < 3e-7);
  CHECK(worst(cpu::exp, std::exp, 1) < 1.5e-7);
  for (double range : {1e-3, 1.0, 3.0, 20.0}) {
    CAPTURE(range);
    CHECK(worst(cpu::tanh, std::tanh, range) < 3e-7);
    CHECK(worst(cpu::erf, std::erf, range) < 3e-7);
  }
}

TEST_CASE("simd_math: the ends") {
  CHECK(cpu::exp(0) == 1);
  CHECK(cpu::exp(-inf) == 0);
  CHECK(cpu::exp(-110) == 0);
  CHECK(cpu::exp(inf) == inf);
  CHECK(cpu::exp(89) == inf);
  CHECK(cpu::exp(88.72f) == Approx(std::exp(88.72f)).epsilon(1e-6));
  CHECK(cpu::exp(-100) == Approx(std::exp(-100.0f)).epsilon(1e-6));  // denormal
  CHECK(cpu::tanh(inf) == 1);
  CHECK(cpu::tanh(-1e30f) == -1);
  CHECK(cpu::erf(-inf) == -1);
  CHECK(cpu::erf(5) == 1);
  CHECK(std::isnan(cpu::exp(NAN)));
  CHECK(std::isnan(cpu::tanh(NAN)));
  CHECK(std::isnan(cpu::erf(NAN)));
}
