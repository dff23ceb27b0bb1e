// Case B50 of tests/cases, its second part: behind 100 ms of kernels one writes 1.0, and the all-reduce follows at once. On a
// CPU a kernel has ended when it returns; on a GPU the collective must wait for its stream.
#include "common/clock.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

TEST_CASE("B50: a sum started right behind the kernel that writes its input has what it wrote") {
  constexpr int64_t n = 64, k = 256;
  const Tensor ones = make({n, k}, [](int64_t) { return 1.f; });
  const Tensor parts = make({k, n}, [](int64_t) { return 1.f / k; });  // a power of two: the products are 1, exactly
  for (int round = 0; round < 3; ++round) {
    Tensor x = backend().zeros({n, n}), other = backend().zeros({n, n});
    const double begin = seconds_now();
    while (seconds_now() - begin < 0.1) backend().matmul(ones, false, parts, false, other);  // a queue before it, on a GPU
    backend().matmul(ones, false, parts, false, x);
    world().all_reduce(x).wait();
    CHECK(differs(x, make({n, n}, [](int64_t) { return static_cast<float>(world().size()); })) == "");
  }
}

}  // namespace course::test
