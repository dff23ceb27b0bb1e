// The ring all-reduce, and the bytes that each rank sends for it.
#include "chapters/02_collectives/ring.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "ring", [](Check& check) {
    const int P = check.size();
    for (int round = 0; round < 4; ++round) {
      const Shape shape = {check.random(cat("rows", round), 1, 5), check.random(cat("columns", round), 1, 7)};
      check.begin(cat("x ", show(shape)));
      std::vector<double> sum(numel(shape));
      Tensor x = check.random(cat("x", round, " of rank ", check.rank()), shape);
      for (int r = 0; r < P; ++r) {
        const auto term = check.backend().to_host(check.random(cat("x", round, " of rank ", r), shape));
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
      }
      ring_all_reduce(check.backend(), check.world(), x);
      check.equal("ring_all_reduce", x, check.backend().from_host(std::vector<float>(sum.begin(), sum.end()), shape));
      const double sent = check.bytes(Op::Send);
      check.equal("ring_all_reduce_bytes", static_cast<double>(ring_all_reduce_bytes(numel(shape), P, check.rank())), sent);
    }
  });
}
