#include "chapters/02_collectives/cost_model.hpp"

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

// A message 3 s, a byte sent 0.5 s, a byte added 0.25 s.
constexpr Machine slow{3, 0.5, 0.25};

// Times of single messages on a machine that is known, each off by up to `noise` of itself.
std::vector<Sample> measured_on(double alpha, double beta, double noise = 0) {
  std::vector<Sample> samples;
  const Rng rng(11, "noise");
  for (double bytes = 256; bytes < 1e7; bytes *= 4) {
    const double off = 1 + noise * (2 * rng.uniform(samples.size()) - 1);
    samples.push_back({1, bytes, (alpha + bytes * beta) * off});
  }
  return samples;
}

}  // namespace

TEST_CASE("the cost of an all-reduce, with a pencil") {
  // 4 ranks, 8 bytes. Ring: 6 messages of 2 bytes, 3 of them added: 6·(3 + 1) + 3·0.5.
  CHECK(ring_seconds(slow, 8, 4) == Approx(25.5));
  // Doubling: 2 messages of 8 bytes, each added: 2·(3 + 4) + 2·2.
  CHECK(recursive_doubling_seconds(slow, 8, 4) == Approx(18));
  // Halving then doubling: messages of 4, 2, 2, 4, the first two added: 4·3 + 12·0.5 + 6·0.25.
  CHECK(rabenseifner_seconds(slow, 8, 4) == Approx(19.5));

  // 3 ranks: one folds in. Ring of 9 bytes: 4 messages of 3, 2 added.
  CHECK(ring_seconds(slow, 9, 3) == Approx(4 * (3 + 1.5) + 2 * 0.75));
  // In (added), once between two (added), and back.
  CHECK(recursive_doubling_seconds(slow, 8, 3) == Approx(3 * (3 + 4) + 2 * 2));
  CHECK(rabenseifner_seconds(slow, 8, 3) == Approx((2 * 3 + 8 * 0.5 + 4 * 0.25) + 2 * (3 + 4) + 2));

  for (const auto& formula : {ring_seconds, recursive_doubling_seconds, rabenseifner_seconds, mpich_seconds})
    CHECK(formula(slow, 1000, 1) == 0);
}

TEST_CASE("few messages win when small, few bytes when large") {
  const Machine machine{20e-6, 0.3e-9, 0.03e-9};
  CHECK(recursive_doubling_seconds(machine, 256, 8) < ring_seconds(machine, 256, 8));
  CHECK(recursive_doubling_seconds(machine, 1e8, 8) > ring_seconds(machine, 1e8, 8));
  CHECK(mpich_seconds(machine, 2048, 8) == recursive_doubling_seconds(machine, 2048, 8));
  CHECK(mpich_seconds(machine, 2052, 8) == rabenseifner_seconds(machine, 2052, 8));
}

TEST_CASE("the fit finds the machine that made the times") {
  for (const auto& [alpha, beta] : {std::pair{20e-6, 0.3e-9}, {1e-6, 2e-9}, {5e-3, 1e-10}}) {
    const AlphaBeta exact = fit(measured_on(alpha, beta));
    CHECK(exact.alpha == Approx(alpha).epsilon(1e-6));
    CHECK(exact.beta == Approx(beta).epsilon(1e-6));
  }
  const AlphaBeta noisy = fit(measured_on(20e-6, 0.3e-9, 0.05));
  CHECK(noisy.alpha == Approx(20e-6).epsilon(0.05));
  CHECK(noisy.beta == Approx(0.3e-9).epsilon(0.05));

  // The largest message took half as long again. Its error in seconds is more than all small times; α hardly notices.
  auto disturbed = measured_on(20e-6, 0.3e-9);
  disturbed.back().seconds *= 1.5;
  CHECK(fit(disturbed).alpha == Approx(20e-6).epsilon(0.1));

  // From whole all-reduces: 6 messages and 1.5 n bytes each on 4 ranks.
  std::vector<Sample> rings;
  for (const double n : {1e3, 1e5, 1e7}) rings.push_back({6, 1.5 * n, ring_seconds({7e-6, 0.2e-9, 0}, n, 4)});
  const AlphaBeta from_rings = fit(rings);
  CHECK(from_rings.alpha == Approx(7e-6));
  CHECK(from_rings.beta == Approx(0.2e-9));
}

TEST_CASE("neither is fitted below zero") {
  const AlphaBeta no_alpha = fit(std::vector<Sample>{{1, 1000, 1e-6}, {1, 2000, 3e-6}});
  CHECK(no_alpha.alpha == 0);
  CHECK(no_alpha.beta == Approx((1e9 + 2e9 / 3) / (1e18 + 4e18 / 9)));  // b/t over (b/t)²
  const AlphaBeta no_beta = fit(std::vector<Sample>{{1, 1000, 2e-6}, {1, 2000, 1e-6}});
  CHECK(no_beta.alpha == Approx(1.5e6 / 1.25e12));
  CHECK(no_beta.beta == 0);
}

TEST_CASE("times that tell nothing are refused") {
  CHECK_THROWS_AS(fit({}), Error);
  CHECK_THROWS_AS(fit(std::vector<Sample>{{1, 100, 1e-6}}), Error);
  CHECK_THROWS_AS(fit(std::vector<Sample>{{1, 100, 1e-6}, {2, 200, 3e-6}}), Error);  // of one shape: bytes a message
  const auto time = Catch::Matchers::Contains("a time of");
  CHECK_THROWS_WITH(fit(std::vector<Sample>{{1, 100, 1e-6}, {1, 200, 0}, {1, 300, 2e-6}}), time);
  CHECK_THROWS_WITH(fit(std::vector<Sample>{{1, 100, 1e-6}, {1, 200, std::nan("")}, {1, 300, 2e-6}}), time);
}

TEST_CASE("a time is that of the slowest rank, and the same for all") {
  const int last = world().size() - 1;
  int calls = 0;
  const auto work = [&] {
    ++calls;
    if (world().rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  const double seconds = time_of(world(), work, 0);
  CHECK(seconds >= 0.005);
  CHECK(calls == 4);  // one untimed and three, whatever the limit
  CHECK(world().max(seconds) == seconds);
  CHECK(-world().max(-seconds) == seconds);

  calls = 0;
  time_of(world(), work, 1);
  CHECK(calls > 4);  // so long as four calls of 5 ms fit into a second
  CHECK(calls <= 202);
}

}  // namespace course::test
