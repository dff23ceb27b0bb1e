// The two sums on every mesh that the ranks make.
#include "museum/04_two_axes/two_axes.hpp"

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "two_axes", [](Check& check) {
    const int P = check.size(), r = check.rank();
    for (const int tp_size : {P % 2 == 0 ? 2 : P, P, 1}) {
      const auto dp = check.world().split(r % tp_size, r, "dp"), tp = check.world().split(r / tp_size, r, "tp");
      check.begin(cat("dp ", dp->size(), " × tp ", tp->size()));
      for (int round = 0; round < 3; ++round) {
        const auto of_rank = [&](const char* what, int rank, int64_t n) {
          return check.random(cat(what, tp_size, round, " ", rank), {n});
        };
        Tensor gradient = of_rank("gradient", r, 5), activation = of_rank("activation", r, 3);
        Tensor over_dp = check.backend().zeros({5}), over_tp = check.backend().zeros({3});
        for (int other = 0; other < P; ++other) {
          if (other % tp_size == r % tp_size) check.backend().add(over_dp, of_rank("gradient", other, 5));
          if (other / tp_size == r / tp_size) check.backend().add(over_tp, of_rank("activation", other, 3));
        }
        add_on_both(*dp, *tp, gradient, activation);
        check.equal("the sum over dp", gradient, over_dp);
        check.equal("the sum over tp", activation, over_tp);
      }
    }
  });
}
