// The time of an all-reduce by the formulas, against the steps of one rank added up one by one.
#include "chapters/02_collectives/cost_model.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

namespace {

double message(const Machine& machine, double bytes, bool adds) {
  return machine.alpha + bytes * machine.beta + (adds ? bytes * machine.gamma : 0);
}

double ring_step_by_step(const Machine& machine, double n, int ranks) {
  double seconds = 0;
  for (const bool adds : {true, false})  // reduce-scatter, all-gather
    for (int step = 1; step < ranks; ++step) seconds += message(machine, n / ranks, adds);
  return seconds;
}

double doubling_step_by_step(const Machine& machine, double n, int ranks) {
  int power = 1;
  while (2 * power <= ranks) power *= 2;
  double seconds = power < ranks ? message(machine, n, true) + message(machine, n, false) : 0;  // in, and back
  for (int known = 1; known < power; known *= 2) seconds += message(machine, n, true);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "prediction", [](Check& check) {
    for (int round = 0; round < 3; ++round) {
      const auto tens = [&](const char* name) { return 0.1 * static_cast<double>(check.random(cat(name, round), 10, 99)); };
      const Machine machine{1e-6 * tens("alpha"), 1e-10 * tens("beta"), 1e-10 * tens("gamma")};
      for (int ranks = 1; ranks <= 9; ++ranks) {
        const auto n = static_cast<double>(check.random(cat("n", round, ranks), 1000, 100000));
        check.begin(cat(ranks, " ranks, ", n, " bytes, alpha ", machine.alpha, ", beta ", machine.beta, ", gamma ", machine.gamma));
        check.equal("ring_seconds", ring_seconds(machine, n, ranks), ring_step_by_step(machine, n, ranks), 1e-9);
        check.equal("recursive_doubling_seconds", recursive_doubling_seconds(machine, n, ranks),
                    doubling_step_by_step(machine, n, ranks), 1e-9);
      }
    }
  });
}
