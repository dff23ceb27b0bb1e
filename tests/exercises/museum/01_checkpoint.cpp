// A training that saves: the lines of the file, and what is left to go.
#include "museum/01_checkpoint/checkpoint.hpp"

#include <sstream>

#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "checkpoint", [](Check& check) {
    for (const int64_t n : {int64_t{7}, check.random("n", 3, 9), int64_t{1}}) {
      const int64_t steps = check.random(cat("steps ", n), 4, 6);
      check.begin(cat(n, " numbers, ", steps, " steps, a checkpoint after every second"));
      const Tensor start = check.random(cat("start ", n), {n}), goal = check.random(cat("goal ", n), {n});
      const auto from = check.backend().to_host(start), to = check.backend().to_host(goal);
      std::vector<float> now = from;
      std::string lines;
      double left = 0;
      for (int64_t step = 1; step <= steps; ++step) {
        left = 0;
        for (int64_t i = 0; i < n; ++i) {
          const float way = (to[i] - now[i]) * 0.5f;
          now[i] += way;
          left += double(way) * way;
          if (step % 2 == 0) lines += cat(now[i], ' ');
        }
        if (step % 2 == 0) lines += '\n';
      }
      const Chunk mine = chunk(n, check.size(), check.rank());
      Tensor weight = check.backend().slice(start, 0, mine.offset, mine.size);
      const Tensor target = check.backend().slice(goal, 0, mine.offset, mine.size);
      std::ostringstream file;
      const double got = train(check.backend(), check.world(), weight, target, n, steps, file);
      check.equal("what is left to go", got, left, 1e-6);
      check.equal("the file", file.str(), check.rank() == 0 ? lines : "");
    }
  });
}
