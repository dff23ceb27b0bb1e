// The mean loss over ranks that have different numbers of tokens, first case B03's: one of loss 2, nine of loss 10.
#include "museum/06_loss/loss.hpp"

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "loss", [](Check& check) {
    const auto compare = [&](const std::string& what, const std::vector<std::vector<double>>& losses,
                             const std::vector<std::vector<int32_t>>& labels) {
      check.begin(what);
      double sum = 0, count = 0;
      for (size_t r = 0; r < losses.size(); ++r)
        for (size_t i = 0; i < losses[r].size(); ++i)
          if (labels[r][i] != -100) sum += losses[r][i], count += 1;
      check.equal("the mean loss", mean_loss(check.world(), losses[check.rank()], labels[check.rank()]),
                  count > 0 ? sum / count : 0, 1e-12);
    };
    const size_t P = check.size();
    std::vector<std::vector<double>> losses(P, std::vector<double>(9, 1));
    std::vector<std::vector<int32_t>> labels(P, std::vector<int32_t>(9, -100));
    losses[0][0] = 2;
    labels[0][0] = 3;
    if (P > 1) losses[1].assign(9, 10), labels[1].assign(9, 3);
    compare("one token of loss 2 on rank 0, nine of loss 10 on rank 1, padding elsewhere", losses, labels);
    for (int round = 0; round < 3; ++round) {
      for (size_t r = 0; r < P; ++r) {
        const int64_t n = check.random(cat("tokens", round, r), 1, 12);
        losses[r].resize(n), labels[r].resize(n);
        for (int64_t i = 0; i < n; ++i) {
          losses[r][i] = static_cast<double>(check.random(cat("loss", round, r, i), 1, 1000)) / 64;
          labels[r][i] = round == 2 || check.random(cat("label", round, r, i), 0, 2) == 0 ? -100 : 5;
        }
      }
      compare(round == 2 ? "nothing but padding" : "some padding", losses, labels);
    }
  });
}
