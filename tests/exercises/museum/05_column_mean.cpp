// The mean of the columns, first of 5 rows, case B35's.
#include "museum/05_column_mean/column_mean.hpp"

#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "column_mean", [](Check& check) {
    const auto compare = [&](const std::string& what, const Tensor& x) {
      check.begin(what);
      const int64_t n = x.dim(0), d = x.dim(1);
      const auto values = check.backend().to_host(x);
      std::vector<float> mean(d);
      for (int64_t j = 0; j < d; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += values[i * d + j];
        mean[j] = static_cast<float>(sum / static_cast<double>(n));
      }
      const Chunk mine = chunk(n, check.size(), check.rank());
      const Tensor got =
          column_mean(check.backend(), check.world(), check.backend().slice(x, 0, mine.offset, mine.size));
      check.equal("the mean of each column", got, check.backend().from_host(mean, {d}));
    };
    compare("5 rows of one number, 1 to 5", check.backend().from_host(std::vector<float>{1, 2, 3, 4, 5}, {5, 1}));
    for (int round = 0; round < 4; ++round) {
      const int64_t n = check.random(cat("rows", round), 1, 12), d = check.random(cat("columns", round), 2, 4);
      compare(cat(n, "x", d), check.random(cat("x", round), {n, d}));
    }
  });
}
