// Each rank's rows of a weight against the weight of one rank, first case B20's: 64×64, seed 42.
#include "museum/08_initial_weight/initial_weight.hpp"

#include <cmath>

#include "common/chunk.hpp"
#include "common/rng.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "initial_weight", [](Check& check) {
    const auto compare = [&](int64_t N, int64_t K, uint64_t seed) {
      check.begin(cat("a weight ", N, "x", K, ", seed ", seed));
      const Rng rng(seed, "weight");
      std::vector<float> values(N * K);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((2 * rng.uniform(i) - 1) / std::sqrt(static_cast<double>(K)));
      const Chunk mine = chunk(N, check.size(), check.rank());
      const Tensor right = check.backend().slice(check.backend().from_host(values, {N, K}), 0, mine.offset, mine.size);
      check.equal("the rows of this rank", initial_weight(check.backend(), check.world(), N, K, seed), right);
    };
    compare(64, 64, 42);
    for (int round = 0; round < 3; ++round)
      compare(check.random(cat("N", round), 1, 9), check.random(cat("K", round), 2, 6),
              check.random(cat("seed", round), 1, 1000));
  });
}
