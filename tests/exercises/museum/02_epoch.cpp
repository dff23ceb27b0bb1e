// The steps of an epoch and its loss, on texts that end near the end of a step. 64, 65, 100, 128 and 129 tokens are
// case B29's.
#include "museum/02_epoch/epoch.hpp"

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "epoch", [](Check& check) {
    const int64_t batch = 16, whole = batch * check.size();
    for (const int64_t length :
         {int64_t{64}, int64_t{65}, int64_t{100}, int64_t{128}, int64_t{129}, check.random("length", 90, 300)}) {
      check.begin(cat(length, " tokens, ", check.size(), " × ", batch, " a step"));
      std::vector<int32_t> tokens;
      for (int64_t i = 0; i <= length; ++i)
        tokens.push_back(static_cast<int32_t>(check.random(cat("token ", i), 0, 20)));
      tokens.pop_back();
      const int64_t steps = (length - 1) / whole;
      double loss = 0;
      for (int64_t i = 0; i < steps * whole; ++i)
        loss += double(tokens[i + 1] - tokens[i]) * (tokens[i + 1] - tokens[i]);
      const Epoch epoch = read_epoch(check.world(), tokens, batch);
      check.equal("steps", static_cast<double>(epoch.steps), static_cast<double>(steps));
      check.equal("the mean loss", epoch.loss, steps > 0 ? loss / static_cast<double>(steps * whole) : 0, 1e-12);
      check.equal("sums over the ranks", static_cast<double>(check.calls(Op::AllReduce)),
                  check.size() > 1 ? static_cast<double>(steps) : 0);
    }
  });
}
