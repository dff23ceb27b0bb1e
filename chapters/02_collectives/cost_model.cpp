#include "chapters/02_collectives/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>

namespace course {
namespace {

struct Doubling {
  double q, steps, folded;  // Q, log2 Q, 1 where Q < P
  explicit Doubling(int ranks)
      : q(std::bit_floor(unsigned(ranks))), steps(std::bit_width(unsigned(ranks)) - 1), folded(q < ranks ? 1 : 0) {}
};

}  // namespace

double ring_seconds(const Machine& machine, double n, int ranks) {
  const double P = ranks;
  return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
}

double recursive_doubling_seconds(const Machine& machine, double n, int ranks) {
  const Doubling d(ranks);
  return (d.steps + 2 * d.folded) * (machine.alpha + n * machine.beta) + (d.steps + d.folded) * n * machine.gamma;
}

double rabenseifner_seconds(const Machine& machine, double n, int ranks) {
  const Doubling d(ranks);
  return 2 * d.steps * machine.alpha + (d.q - 1) / d.q * n * (2 * machine.beta + machine.gamma) +
         d.folded * (2 * (machine.alpha + n * machine.beta) + n * machine.gamma);
}

double mpich_seconds(const Machine& machine, double n, int ranks) {
  return n <= 2048 ? recursive_doubling_seconds(machine, n, ranks) : rabenseifner_seconds(machine, n, ranks);
}

AlphaBeta fit(std::span<const Sample> samples) {
  // Normal equations of Σ ((mα + bβ)/t - 1)².
  double mm = 0, mb = 0, bb = 0, m1 = 0, b1 = 0;
  for (const Sample& sample : samples) {
    require(sample.seconds > 0, "fit: a time of ", sample.seconds, " s");
    const double m = sample.messages / sample.seconds, b = sample.bytes / sample.seconds;
    mm += m * m, mb += m * b, bb += b * b, m1 += m, b1 += b;
  }
  const double determinant = mm * bb - mb * mb;
  require(determinant > 1e-12 * mm * bb, "fit: ", samples.size(),
          " samples cannot tell the time of a message from that of a byte; measure two sizes or more");
  const double alpha = (m1 * bb - b1 * mb) / determinant, beta = (b1 * mm - m1 * mb) / determinant;
  if (alpha < 0) return {0, b1 / bb};
  if (beta < 0) return {m1 / mm, 0};
  return {alpha, beta};
}

double time_of(Comm& comm, const std::function<void()>& work, double most) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  work();
  double fastest = std::numeric_limits<double>::infinity();
  const auto first = Clock::now();
  for (int round = 1;; ++round) {
    comm.barrier().wait();
    const auto begin = Clock::now();
    work();
    double slowest[] = {since(begin), since(first)};  // the same on all ranks, so all stop in the same round
    comm.all_reduce(std::span<double>(slowest), Reduce::Max).wait();
    fastest = std::min(fastest, slowest[0]);
    if (round >= 3 && slowest[1] > most) return fastest;
  }
}

}  // namespace course
