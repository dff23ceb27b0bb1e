// Case B50 of tests/cases, its first part: collectives of two axes under way at once, on ranks that come late by turns.
// The case's 1000 rounds with COURSE_SLOW set (ctest's label slow), else 100.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("B50: overlapped collectives of dp and tp always end, each time with the right sums") {
  constexpr int64_t n = 5;
  const int64_t rounds = std::getenv("COURSE_SLOW") ? 1000 : 100;
  const Rng rng(1, cat("sleep of rank ", world().rank()));
  for (const MeshSize& size : meshes_of(world().size())) {
    if (size.dp != (world().size() == 4 ? 2 : 1)) continue;  // 2×2 is where the two orders cross
    INFO("dp " << size.dp << " × tp " << size.tp);
    const DeviceMesh mesh(world(), backend(), {{"dp", size.dp}, {"tp", size.tp}});
    const Counts counts(size.dp, n);
    const Tensor given = make({size.dp * n}, [](int64_t) { return 1.f; });
    int64_t wrong = 0;
    for (int64_t round = 0; round < rounds; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(rng.uniform(round) * 5000)));
      Tensor mine = backend().zeros({n}), whole = make({n}, [](int64_t) { return 1.f; });
      Work reduce = mesh["dp"].comm().reduce_scatter(given, mine, counts);
      Work sum = mesh["tp"].comm().all_reduce(whole);
      // Started in one order on every rank; waited for in any.
      if ((round + world().rank()) % 2 == 0) {
        reduce.wait();
        sum.wait();
      } else {
        sum.wait();
        reduce.wait();
      }
      for (const float x : backend().to_host(mine)) wrong += x != static_cast<float>(size.dp);
      for (const float x : backend().to_host(whole)) wrong += x != static_cast<float>(size.tp);
    }
    CHECK(wrong == 0);
  }
}
