// A step on parameters of 6, 5, 1, 13 and 21 numbers, case B18's, and of others.
#include "museum/03_small_parameters/small_parameters.hpp"

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "small_parameters", [](Check& check) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{6, 5, 1, 13, 21}, {check.random("n", 2, 9), 0, 3}}) {
      std::string names;
      std::vector<Tensor> weights, gradients, right;
      for (const int64_t n : sizes) {
        names += cat(names.empty() ? "" : ", ", n);
        weights.push_back(check.random(cat("weight ", names), {n}));
        right.push_back(check.backend().clone(weights.back()));
        for (int r = 0; r < check.size(); ++r) {
          Tensor gradient = check.random(cat("gradient ", names, " of rank ", r), {n});
          if (r == check.rank()) gradients.push_back(check.backend().clone(gradient));
          check.backend().scale(gradient, -0.5f);
          check.backend().add(right.back(), gradient);
        }
      }
      check.begin(cat("parameters of ", names, " numbers"));
      const std::vector<Tensor> updated = descend(check.backend(), check.world(), weights, gradients, 0.5f);
      for (size_t i = 0; i < sizes.size(); ++i)
        check.equal(cat("parameter ", i, ", of ", sizes[i]), updated.at(i), right[i]);
      check.equal("all-gathers", static_cast<double>(check.calls(Op::AllGather)),
                  check.size() > 1 ? static_cast<double>(sizes.size()) : 0);
    }
  });
}
