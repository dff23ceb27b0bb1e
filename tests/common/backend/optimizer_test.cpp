#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("adamw: some steps as the formula in double") {
  Backend& be = backend();
  for (int64_t n : {0, 1, 19, 20000}) {
    CAPTURE(n);
    Tensor value = random("value", {n}), mean = be.zeros({n}), square = be.zeros({n});
    Values p = values_of(value), m(n), v(n);
    for (int64_t t = 1; t <= 5; ++t) {
      const AdamWStep step = {1e-2 * t, 0.9, 0.99, 1e-8, 0.1, t};
      const Tensor grad = random("grad" + std::to_string(t), {n}, t == 3 ? 1e-6f : 2);
      const Values g = values_of(grad);
      for (int64_t i = 0; i < n; ++i) {
        p[i] *= 1 - step.lr * step.weight_decay;
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
        p[i] -= step.lr / (1 - std::pow(0.9, t)) * m[i] / (std::sqrt(v[i]) / std::sqrt(1 - std::pow(0.99, t)) + 1e-8);
      }
      const AdamWTensors all[] = {{value, grad, mean, square}};
      be.adamw(all, step);
      CHECK(far(value, p, 2e-6) == "");
      CHECK(far(mean, m, 2e-6) == "");
      CHECK(far(square, v, 2e-6) == "");
    }
  }
}

TEST_CASE("adamw: a gradient of zero only decays, a tiny one moves by the whole rate") {
  Backend& be = backend();
  Tensor value = be.full({3}, 2), mean = be.zeros({3}), square = be.zeros({3});
  const Tensor grad = be.from_host(std::vector<float>{0, 1e-3f, -1e-12f}, {3});
  const AdamWTensors all[] = {{value, grad, mean, square}};
  be.adamw(all, {0.1, 0.9, 0.99, 1e-8, 0.5, 1});
  CHECK(far(value, {1.9, 1.8, 1.9 + 0.1 * 1e-12 / (1e-12 + 1e-8)}, 1e-6) == "");
  CHECK_THROWS_WITH(be.adamw(all, {0.1, 0.9, 0.99, 1e-8, 0.5, 0}),
                    Catch::Contains("count from 1"));
}
