// The kernels that are there to be read: each step computes what the next one does.
#include <cmath>

#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/steps.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Card {
  CudaBackend be{0};

  Tensor random(const std::string& name, Shape shape, float size = 1) {
    const Rng rng(13, name);
    std::vector<float> values(numel(shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * rng.uniform(i) - 1) * size;
    return be.from_host(values, std::move(shape));
  }
  std::string far(const Tensor& x, const std::vector<float>& should, double tolerance) {
    return differs(be.to_host(x), should, x.shape(), tolerance);
  }
};

const std::vector<Shape> kShapes = {{3, 5}, {1, 1}, {300, 7}, {5, 1000}, {2, 1301}, {4, 256}, {0, 4}, {3, 0}};

}  // namespace

TEST_CASE("steps: RMSNorm") {
  Card card;
  for (const Shape& shape : kShapes) {
    CAPTURE(show(shape));
    const int64_t N = shape[0], E = shape[1];
    const Tensor x = card.random("x", shape, 3), weight = card.random("weight", {E});
    Tensor y = card.be.empty(shape), rstd = card.be.empty({N});
    card.be.rms_norm(x, weight, 0.1f, y, rstd);
    const std::vector<float> should = card.be.to_host(y), should_rstd = card.be.to_host(rstd);
    for (const auto step : {cuda::rms_norm_of_thread, cuda::rms_norm_in_shared, cuda::rms_norm_of_warp}) {
      Tensor z = card.be.empty(shape), other = card.be.empty({N});
      step(x.data<float>(), weight.data<float>(), 0.1f, z.data<float>(), other.data<float>(), N, E, card.be.stream());
      CHECK(card.far(z, should, 1e-6) == "");
      if (E) CHECK(card.far(other, should_rstd, 1e-6) == "");
    }
  }
}

TEST_CASE("steps: softmax") {
  Card card;
  for (const Shape& shape : kShapes)
    for (const float size : {1.0f, 1000.0f}) {
      CAPTURE(show(shape), size);
      const int64_t N = shape[0], E = shape[1];
      const Tensor x = card.random("x", shape, size);
      const std::vector<float> in = card.be.to_host(x);
      std::vector<float> should(in.size());
      for (int64_t n = 0; n < N; ++n) {
        double top = -INFINITY, sum = 0;
        for (int64_t e = 0; e < E; ++e) top = std::max<double>(top, in[n * E + e]);
        for (int64_t e = 0; e < E; ++e) sum += std::exp(in[n * E + e] - top);
        for (int64_t e = 0; e < E; ++e) should[n * E + e] = static_cast<float>(std::exp(in[n * E + e] - top) / sum);
      }
      for (const auto step : {cuda::softmax_of_thread, cuda::softmax_in_shared, cuda::softmax_online}) {
        Tensor y = card.be.empty(shape);
        step(x.data<float>(), y.data<float>(), N, E, card.be.stream());
        CHECK(card.far(y, should, 1e-6) == "");
      }
    }
}

TEST_CASE("steps: matmul") {
  Card card;
  struct Size {
    int64_t M, N, K;
  };
  for (const auto& [M, N, K] : {Size{1, 1, 1}, Size{33, 20, 17}, Size{130, 140, 9}, Size{64, 300, 40}, Size{5, 131, 3},
                                Size{0, 3, 2}, Size{2, 0, 3}, Size{3, 2, 0}}) {
    CAPTURE(M, N, K);
    const Tensor a = card.random("a", {M, K}), b = card.random("b", {K, N});
    Tensor c = card.be.empty({M, N});
    card.be.matmul(a, false, b, false, c, false);
    const std::vector<float> should = card.be.to_host(c);
    for (const auto step : {cuda::matmul_of_thread, cuda::matmul_in_shared, cuda::matmul_in_registers}) {
      Tensor d = card.be.empty({M, N});
      step(a.data<float>(), b.data<float>(), d.data<float>(), M, N, K, card.be.stream());
      CHECK(card.far(d, should, 1e-6) == "");
    }
  }
}
