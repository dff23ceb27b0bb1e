// Many tensors in one kernel: each gets what it gets alone.
#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("adamw: as many tensors as fit, of all sizes") {
  CudaBackend be(0);
  const AdamWStep step = {0.01, 0.9, 0.99, 1e-8, 0.1, 3};
  struct Four {
    Tensor value, grad, mean, square;
  };
  const auto make = [&](int t, int64_t n) {
    const Rng rng(17, std::to_string(t));
    const auto values = [&](int64_t from) {
      std::vector<float> x(n);
      for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(rng.uniform(from + i));
      return be.from_host(x, {n});
    };
    return Four{values(0), values(100000), values(200000), values(300000)};
  };
  cuda::AdamWTensors all = {};
  std::vector<Four> together;
  for (int t = 0; t < cuda::AdamWTensors::kMost; ++t) {
    const int64_t n = t % 7 == 3 ? 0 : t % 5 == 1 ? 4096 * (t % 3) + t : 3 * t;
    Four& f = together.emplace_back(make(t, n));
    all.value[t] = f.value.data<float>();
    all.grad[t] = f.grad.data<float>();
    all.mean[t] = f.mean.data<float>();
    all.square[t] = f.square.data<float>();
    all.size[t] = n;
    ++all.count;
  }
  cuda::adamw(all, step, be.stream());
  for (int t = 0; t < all.count; ++t) {
    CAPTURE(t, all.size[t]);
    Four alone = make(t, all.size[t]);
    const std::vector<float> before = be.to_host(alone.value);
    be.adamw(alone.value, alone.grad, alone.mean, alone.square, step);
    CHECK(differs(be.to_host(together[t].value), be.to_host(alone.value), alone.value.shape()) == "");
    CHECK(differs(be.to_host(together[t].mean), be.to_host(alone.mean), alone.value.shape()) == "");
    CHECK(differs(be.to_host(together[t].square), be.to_host(alone.square), alone.value.shape()) == "");
    if (all.size[t]) CHECK(differs(before, be.to_host(alone.value), alone.value.shape()) != "");
  }
}
