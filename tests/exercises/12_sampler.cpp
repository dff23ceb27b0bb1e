// Which samples each rank reads.
#include "chapters/12_fully_sharded/distributed_sampler.hpp"

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "sampler", [](Check& check) {
    for (int round = 0; round < 7; ++round) {
      const bool few = round == 6;  // fewer samples than half the ranks
      const int64_t samples = few ? 2 : check.random(cat("samples", round), 8, 23), ranks = check.size() + (few ? 4 : round % 3);
      const bool drop_last = round % 2 == 1;
      check.begin(cat(samples, " samples, ", ranks, " ranks", drop_last ? ", drop_last" : ""));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::string right, got;
        const int64_t each = drop_last ? samples / ranks : samples / ranks + (samples % ranks > 0);
        for (int64_t i = 0; i < each; ++i) right += cat(i ? " " : "", (i * ranks + rank) % samples);
        for (const int64_t s : DistributedSampler{.samples = samples, .ranks = ranks, .rank = rank, .drop_last = drop_last}.order())
          got += cat(got.empty() ? "" : " ", s);
        check.equal(cat("the samples of rank ", rank), got, right);
      }
    }
  });
}
