// bf16 in the reductions of MPI: added in f32, rounded once an addition, and the same bits on every rank.
#include <cmath>
#include <limits>

#include "common/comm/recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {


std::string bits_of(const Tensor& x) {
  std::string bits(x.bytes(), '\0');
  backend().copy_out(x, bits.data());
  return bits;
}

}  // namespace

TEST_CASE("bf16: sums that are rounded are near the exact ones, and alike on all ranks") {
  const int P = world().size();
  constexpr int64_t n = 3000;
  std::vector<float> exact(n), size(n);
  for (int r = 0; r < P; ++r) {
    const std::vector<float> theirs = backend().floats(half(random(cat("x", r), {n})));
    for (int64_t i = 0; i < n; ++i) exact[i] += theirs[i], size[i] += std::abs(theirs[i]);
  }
  Tensor x = half(random(cat("x", world().rank()), {n}));
  world().all_reduce(x).wait();
  const std::vector<float> sum = backend().floats(x);
  for (int64_t i = 0; i < n; ++i) CHECK(std::abs(sum[i] - exact[i]) <= (P - 1) * size[i] / 256);
  for (const std::string& theirs : world().all_gather_text(bits_of(x))) CHECK((theirs == bits_of(x)));
}

TEST_CASE("bf16: the largest of all, of negative numbers too; on the host a nan is not lost") {
  const int P = world().size(), r = world().rank();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x = half(backend().from_host(std::vector<float>{-1.0F - r, 3.0F * r, -0.5F, r == P - 1 ? nan : 1.0F}, {4}));
  world().all_reduce(x, Reduce::Max).wait();
  const std::vector<float> got = backend().floats(x);
  CHECK(got[0] == -1);
  CHECK(got[1] == 3.0F * (P - 1));
  CHECK(got[2] == -0.5F);
  if (x.device() == Device::Cpu) CHECK(std::isnan(got[3]));  // NCCL does not say what becomes of it
}

TEST_CASE("bf16: counted at two bytes an element") {
  const int P = world().size();
  if (P == 1) return;
  Traffic traffic;
  Recorder recorder(world(), traffic);
  Tensor x = half(random("x", {50}));
  recorder.all_reduce(x).wait();
  CHECK(traffic.total("world").bytes == Approx(2 * (P - 1.0) / P * 100));
}

}  // namespace course::test
