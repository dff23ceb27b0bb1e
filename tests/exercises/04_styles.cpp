// Linear by columns and by rows, Embedding by vocabulary: forward, backward, and what is sent.
#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "tests/exercises/module_check.hpp"

using namespace course;

namespace {

// Forward and backward of one styled module, with the cost of both.
void check_style(Check& check, const std::string& what, Module& serial, Module& sharded, const ParallelStyle& style,
                 const DeviceMesh& tp, const Tensor& x, const Tensor& dy, const ModuleSides& sides,
                 const std::map<Op, Sent>& sent) {
  style.apply(sharded, tp);
  for (Module* m : {&serial, &sharded}) initialize(*m, 3);
  check.begin(what);
  check_module(check, what, serial, sharded, tp, x, dy, sides);
  check.sent(sent);
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "styles", [](Check& check) {
    const DeviceMesh tp(check.world(), check.backend(), {{"tp", check.size()}});
    for (int round = 0; round < 2; ++round) {
      const int64_t N = check.random(cat("N", round), 1, 5), I = check.random(cat("I", round), 4, 9),
                    O = check.random(cat("O", round), 5, 11), V = check.random(cat("V", round), 7, 15);
      const Tensor x = check.random(cat("x", round), {N, I}), dy = check.random(cat("dy", round), {N, O});
      const auto one = [&](Op op, int64_t n) {
        return std::map<Op, Sent>{{op, {1, ring_bytes(op, 4.0 * static_cast<double>(n), check.size())}}};
      };
      {
        Linear serial(check.backend(), I, O, true), sharded(check.backend(), I, O, true);
        check_style(check, cat("Linear [", O, ",", I, "] by columns"), serial, sharded, ColwiseParallel(), tp, x, dy,
                    {.output = Shard(-1)}, one(Op::AllReduce, N * I));
      }
      {
        Linear serial(check.backend(), I, O, true), sharded(check.backend(), I, O, true);
        check_style(check, cat("Linear [", O, ",", I, "] by rows"), serial, sharded, RowwiseParallel(), tp, x, dy,
                    {.input = Shard(-1)}, one(Op::AllReduce, N * O));
      }
      {
        Embedding serial(check.backend(), V, O), sharded(check.backend(), V, O);
        std::vector<int32_t> ids(N);
        for (int64_t n = 0; n < N; ++n) ids[n] = static_cast<int32_t>(check.random(cat("id", round, ".", n), 0, V - 1));
        check_style(check, cat("Embedding [", V, ",", O, "] by rows"), serial, sharded, RowwiseParallel().input(Replicate()), tp,
                    check.backend().from_host(ids, {N}), dy, {}, one(Op::AllReduce, N * O));
      }
    }
  });
}
