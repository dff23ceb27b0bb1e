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
  // exercise prediction {
  const double P = ranks;
  return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
  // } exercise
}

double recursive_doubling_seconds(const Machine& machine, double n, int ranks) {
  // exercise prediction {
  const Doubling d(ranks);
  return (d.steps + 2 * d.folded) * (machine.alpha + n * machine.beta) + (d.steps + d.folded) * n * machine.gamma;
  // } exercise
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

// Exercise 02 prediction
// Task: How long an all-reduce takes, before it is run: ring_seconds and recursive_doubling_seconds, for a tensor of n
// bytes on P ranks. A message of m bytes takes alpha + m·beta seconds, and adding m bytes takes m·gamma. The ranks work
// at the same time: count what one rank does, step after step. Doubling knows Q, the largest power of two up to P (q),
// log2 Q (steps), and whether ranks are left over (folded).
// Hint: the ring has two phases of P-1 steps. In each step a rank sends one of P pieces. In which phase does it add?
// Hint: in recursive doubling every message is the whole tensor. What arrives is added, except the very last message,
// which hands the finished sum to a rank left over.
// Hint: the ranks left over hand their tensor in before the first step, and get the sum after the last.
// Why: The ring sends the fewest bytes and recursive doubling the fewest messages. With alpha and beta measured, the
// two formulas say from which size on the ring is the better one.
// Wrong one_phase: This is the reduce-scatter alone. An all-gather of as many steps follows it, in which nothing is
// added.
//   - return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
//   + return (P - 1) * machine.alpha + (P - 1) / P * n * (machine.beta + machine.gamma);
// Wrong a_step_for_each_rank: A ring of P ranks has P steps here. A rank's own piece needs no step: it is P-1 in each
// phase.
//   - return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
//   + return 2 * P * machine.alpha + n * (2 * machine.beta + machine.gamma);
// Wrong whole_in_each_step: Every step of the ring is priced with the whole tensor. It sends one piece of P.
//   - return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
//   + return 2 * (P - 1) * machine.alpha + (P - 1) * n * (2 * machine.beta + machine.gamma);
// Wrong adds_twice: The second phase of the ring is priced with additions. There, finished pieces are handed on as they
// are.
//   - return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
//   + return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * 2 * (machine.beta + machine.gamma);
// Wrong all_ranks_in_turn: What all ranks of the ring do is added up. They do it at the same time.
//   - return 2 * (P - 1) * machine.alpha + (P - 1) / P * n * (2 * machine.beta + machine.gamma);
//   + return 2 * P * (P - 1) * machine.alpha + (P - 1) * n * (2 * machine.beta + machine.gamma);
// Wrong nobody_left_over: Recursive doubling is priced for Q ranks. Where P is no power of two, the ranks left over
// cost two messages.
//   - return (d.steps + 2 * d.folded) * (machine.alpha + n * machine.beta) + (d.steps + d.folded) * n * machine.gamma;
//   + return d.steps * (machine.alpha + n * machine.beta + n * machine.gamma);
// Wrong doubling_in_pieces: Recursive doubling is priced with a piece of Q in each step. Two ranks swap all they have:
// the whole tensor.
//   - return (d.steps + 2 * d.folded) * (machine.alpha + n * machine.beta) + (d.steps + d.folded) * n * machine.gamma;
//   + const double piece = n / d.q;
//   + return (d.steps + 2 * d.folded) * (machine.alpha + piece * machine.beta) + (d.steps + d.folded) * piece * machine.gamma;
