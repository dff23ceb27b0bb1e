#include <cstring>

#include "chapters/02_collectives/recursive_doubling.hpp"
#include "chapters/02_collectives/ring.hpp"
#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

using AllReduce = void (*)(Backend&, Comm&, Tensor&);
struct Algorithm {
  const char* name;
  AllReduce run;
};
const Algorithm algorithms[] = {{"ring", ring_all_reduce}, {"recursive doubling", recursive_doubling_all_reduce}};
// None, fewer than ranks, even and uneven pieces, empty last pieces.
const int64_t counts[] = {0, 1, 2, 3, 5, 8, 9, 12, 1000, 4099};

Tensor integers(const std::string& name, Shape shape) {
  const Rng rng(5, name);
  return make(std::move(shape), [&](int64_t i) { return static_cast<float>(int(rng.bits(i) % 2001) - 1000); });
}

}  // namespace

TEST_CASE("an all-reduce by hand gives MPI's sum: the same bits for integers") {
  const int r = world().rank();
  for (const auto& algorithm : algorithms)
    for (const int64_t n : counts) {
      INFO(algorithm.name << " of " << n << " on rank " << r << " of " << world().size());
      Tensor mine = integers(cat("x of rank ", r), {n, 3}), mpi = backend().clone(mine);
      algorithm.run(backend(), world(), mine);
      world().all_reduce(mpi).wait();
      CHECK(differs(mine, mpi) == "");
      CHECK(mine.shape() == Shape{n, 3});
    }
}

TEST_CASE("real numbers: within rounding of the sum in double, and the same bits on all ranks") {
  const int P = world().size(), r = world().rank();
  for (const auto& algorithm : algorithms)
    for (const int64_t n : counts) {
      INFO(algorithm.name << " of " << n);
      Tensor mine = random(cat("x of rank ", r), {n}, 100);
      algorithm.run(backend(), world(), mine);
      std::vector<double> sum(n);
      for (int s = 0; s < P; ++s) {
        const auto part = backend().to_host(random(cat("x of rank ", s), {n}, 100));
        for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
      }
      CHECK(differs(backend().to_host(mine), std::vector<float>(sum.begin(), sum.end()), {n}, 1e-6) == "");

      Tensor all = backend().empty({P * n});
      world().all_gather(mine, all, Counts(P, n)).wait();
      const auto bits = backend().to_host(mine), theirs = backend().to_host(all);
      for (int s = 0; s < P && n > 0; ++s)
        CHECK(std::memcmp(bits.data(), theirs.data() + s * n, n * sizeof(float)) == 0);
    }
}

TEST_CASE("the ring sends what the formula says") {
  const int P = world().size(), r = world().rank();
  for (const int64_t n : counts) {
    INFO(n << " numbers on rank " << r << " of " << P);
    Traffic traffic;
    Recorder seen(world(), traffic);
    Tensor x = integers(cat("x of rank ", r), {n});
    ring_all_reduce(backend(), seen, x);
    CHECK(traffic.count(Op::Send) == 2 * (P - 1));
    CHECK(traffic.count(Op::Recv) == 2 * (P - 1));
    CHECK(traffic.total().calls == 4 * (P - 1));
    CHECK(traffic.bytes(Op::Send) == ring_all_reduce_bytes(n, P, r));
    const double ring = ring_bytes(Op::AllReduce, 4.0 * n, P);
    if (n % P == 0) CHECK(traffic.bytes(Op::Send) == Approx(ring));
    CHECK(world().sum(traffic.bytes(Op::Send)) / P == Approx(ring));
  }
}

TEST_CASE("recursive doubling sends what the formula says") {
  const int P = world().size(), r = world().rank();
  for (const int64_t n : {0, 1, 7, 1000}) {
    Traffic traffic;
    Recorder seen(world(), traffic);
    Tensor x = integers(cat("x of rank ", r), {n});
    recursive_doubling_all_reduce(backend(), seen, x);
    CHECK(traffic.count(Op::Send) == recursive_doubling_sends(P, r));
    CHECK(traffic.bytes(Op::Send) == 4.0 * n * recursive_doubling_sends(P, r));
  }
}

TEST_CASE("the formulas, with a pencil") {
  // 5 numbers over 4 ranks are pieces of 2, 2, 1, 0. Rank 0 sends all but piece 1, then all but piece 2: 3 + 4 numbers.
  CHECK(ring_all_reduce_bytes(5, 4, 0) == 28);
  CHECK(ring_all_reduce_bytes(5, 4, 1) == 36);
  CHECK(ring_all_reduce_bytes(5, 4, 2) == 32);
  CHECK(ring_all_reduce_bytes(5, 4, 3) == 24);
  CHECK(ring_all_reduce_bytes(8, 4, 2) == 48);
  CHECK(ring_all_reduce_bytes(8, 1, 0) == 0);
  for (int P = 1; P < 10; ++P)
    for (int64_t n = 0; n < 30; ++n) {
      int64_t all = 0;
      for (int r = 0; r < P; ++r) all += ring_all_reduce_bytes(n, P, r);
      CHECK(all == 2 * (P - 1) * 4 * n);
    }

  const auto sends = [](int P) {
    std::vector<int> all;
    for (int r = 0; r < P; ++r) all.push_back(recursive_doubling_sends(P, r));
    return all;
  };
  CHECK(sends(1) == std::vector<int>{0});
  CHECK(sends(2) == std::vector<int>{1, 1});
  CHECK(sends(3) == std::vector<int>{1, 2, 1});
  CHECK(sends(4) == std::vector<int>{2, 2, 2, 2});
  CHECK(sends(6) == std::vector<int>{1, 3, 1, 3, 2, 2});
  CHECK(sends(7) == std::vector<int>{1, 3, 1, 3, 1, 3, 2});
  CHECK(sends(8) == std::vector<int>(8, 3));
}

// Messages too large for any buffer of the transport: whoever sent first and only then received would hang.
TEST_CASE("an exchange of large messages in a circle ends") {
  const int P = world().size(), r = world().rank();
  if (P == 1) return;
  const int64_t n = 1 << 20;
  const int right = (r + 1) % P, left = (r + P - 1) % P;
  const Tensor mine = random(cat("from ", r), {n});
  Tensor theirs = backend().zeros({n});
  exchange(world(), mine, right, theirs, left);
  CHECK(differs(theirs, random(cat("from ", left), {n})) == "");
}

}  // namespace course::test
