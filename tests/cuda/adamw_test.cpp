// Many tensors in one kernel: each gets what it gets alone.
#include <deque>

#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("adamw: more tensors than one kernel takes, of all sizes") {
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
  const auto size_of_tensor = [](int t) { return t % 7 == 3 ? 0 : t % 5 == 1 ? 4096 * (t % 3) + t : 3 * t; };
  constexpr int kTensors = 70;
  static_assert(kTensors > cuda::AdamWPointers::kMost);
  std::deque<Four> together;
  std::vector<AdamWTensors> all;
  for (int t = 0; t < kTensors; ++t) {
    Four& f = together.emplace_back(make(t, size_of_tensor(t)));
    all.push_back({f.value, f.grad, f.mean, f.square});
  }
  be.adamw(all, step);
  for (int t = 0; t < kTensors; ++t) {
    CAPTURE(t, size_of_tensor(t));
    Four alone = make(t, size_of_tensor(t));
    const std::vector<float> before = be.to_host(alone.value);
    const AdamWTensors one[] = {{alone.value, alone.grad, alone.mean, alone.square}};
    be.adamw(one, step);
    CHECK(be.to_host(together[t].value) == be.to_host(alone.value));
    CHECK(be.to_host(together[t].mean) == be.to_host(alone.mean));
    CHECK(be.to_host(together[t].square) == be.to_host(alone.square));
    if (t > 0 && size_of_tensor(t) > 0) CHECK(before != be.to_host(alone.value));
  }
}
