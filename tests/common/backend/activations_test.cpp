#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

// Random values, with the ends where formulas overflow.
Tensor inputs(const std::string& name, int64_t n, float size) {
  const std::vector<float> ends = {0, -0.0f, 1e-30f, -1e-6f, 88, -88, 1e4f, -1e4f, 3e38f, -3e38f};
  const Rng rng(5, name);
  return make({n}, [&](int64_t i) {
    return i < int64_t(ends.size()) && n > 100 ? ends[i] : float(2 * rng.uniform(i) - 1) * size;
  });
}

const std::vector<int64_t> kSizes = {0, 1, 17, 333, 20011};

Values slopes(const std::function<double(double)>& f, const Values& x, const Values& dy) {
  Values d(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    d[i] = std::abs(x[i]) > 1e3 ? (x[i] > 0 ? dy[i] : 0) : dy[i] * (f(x[i] + 1e-5) - f(x[i] - 1e-5)) / 2e-5;
  return d;
}

}  // namespace

TEST_CASE("gelu: both kinds, forward and derivative") {
  Backend& be = backend();
  for (const Gelu kind : {Gelu::Exact, Gelu::Tanh})
    for (int64_t n : kSizes) {
      CAPTURE(n, int(kind));
      const Tensor x = inputs("x", n, 6), dy = random("dy", {n});
      Tensor y = be.empty({n}), dx = be.empty({n});
      be.gelu(x, kind, y);
      be.gelu_backward(dy, x, kind, dx);
      // The rms of the tolerance must not come from the huge values: compared one by one.
      const Values twin = twin::gelu(values_of(x), kind), got = values_of(y);
      for (int64_t i = 0; i < n; ++i) {
        INFO("x " << values_of(x)[i] << " gives " << got[i] << ", should " << twin[i]);
        if (!(std::abs(got[i] - twin[i]) <= 5e-7 * (1 + std::abs(twin[i])))) CHECK(got[i] == twin[i]);
      }
      CHECK(far(dx, slopes([&](double v) { return twin::gelu({v}, kind)[0]; }, values_of(x), values_of(dy)), 2e-6) ==
            "");
    }
}

TEST_CASE("silu_mul: forward and derivative, also where exp overflows") {
  Backend& be = backend();
  for (int64_t n : kSizes) {
    CAPTURE(n);
    const Tensor gate = inputs("gate", n, 12), up = random("up", {n}, 3), dy = random("dy", {n});
    Tensor y = be.empty({n}), dgate = be.empty({n}), dup = be.empty({n});
    be.silu_mul(gate, up, y);
    be.silu_mul_backward(dy, gate, up, dgate, dup);
    const Values g = values_of(gate), u = values_of(up), d = values_of(dy);
    Values du(n), by_gate(n);
    const Values twin = twin::silu_mul(g, u), got = values_of(y), got_up = values_of(dup);
    for (int64_t i = 0; i < n; ++i) {
      du[i] = twin::silu_mul({g[i]}, {1})[0] * d[i];
      by_gate[i] = d[i] * u[i];
      INFO("gate " << g[i] << " gives " << got[i] << ", should " << twin[i]);
      if (!(std::abs(got[i] - twin[i]) <= 5e-7 * (1e-3 + std::abs(twin[i])))) CHECK(got[i] == twin[i]);
      if (!(std::abs(got_up[i] - du[i]) <= 5e-7 * (1e-3 + std::abs(du[i])))) CHECK(got_up[i] == du[i]);
    }
    CHECK(far(dgate, slopes([](double v) { return twin::silu_mul({v}, {1})[0]; }, g, by_gate), 2e-6) == "");
  }
}

TEST_CASE("activations: an output may be one of the inputs") {
  Backend& be = backend();
  const Tensor gate = random("gate", {1003}, 4), up = random("up", {1003}), dy = random("dy", {1003});
  Tensor y = be.empty({1003}), dgate = be.empty({1003}), dup = be.empty({1003}), x = be.clone(gate), d = be.clone(dy),
         u = be.clone(up);
  be.silu_mul(gate, up, y);
  be.silu_mul(x, up, x);
  CHECK(differs(x, y) == "");
  be.silu_mul_backward(dy, gate, up, dgate, dup);
  be.silu_mul_backward(d, gate, u, d, u);
  CHECK(differs(d, dgate) == "");
  CHECK(differs(u, dup) == "");
  be.gelu(gate, Gelu::Tanh, y);
  x = be.clone(gate);
  be.gelu(x, Gelu::Tanh, x);
  CHECK(differs(x, y) == "");
}

TEST_CASE("activations: nan stays nan") {
  Backend& be = backend();
  const Tensor x = be.full({40}, NAN), one = be.full({40}, 1);
  Tensor y = be.empty({40});
  for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
    be.gelu(x, kind, y);
    CHECK(std::isnan(values_of(y)[7]));
  }
  be.silu_mul(x, one, y);
  CHECK(std::isnan(values_of(y)[39]));
}
