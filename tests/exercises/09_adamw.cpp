// Steps of AdamW on whole parameters and on parts of them, against the formula number by number.
#include "chapters/09_llama/adamw.hpp"

#include <cmath>

#include "tests/exercises/module_check.hpp"

using namespace course;

namespace {

// A whole parameter with its moments, in double. PyTorch's order: decay, moments, step.
struct ByTheFormula {
  std::vector<double> value, mean, square;

  void step(const std::vector<float>& gradient, double lr, const AdamWOptions& o, int t) {
    for (size_t i = 0; i < value.size(); ++i) {
      mean[i] = o.beta1 * mean[i] + (1 - o.beta1) * gradient[i];
      square[i] = o.beta2 * square[i] + (1 - o.beta2) * gradient[i] * gradient[i];
      const double m = mean[i] / (1 - std::pow(o.beta1, t)), v = square[i] / (1 - std::pow(o.beta2, t));
      value[i] -= lr * o.weight_decay * value[i] + lr * m / (std::sqrt(v) + o.eps);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "adamw", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh dp(check.world(), backend, {{"dp", check.size()}});
    for (int round = 0; round < 2; ++round) {
      const AdamWOptions options{.beta1 = 0.8 + 0.1 * round, .beta2 = 0.97, .weight_decay = 0.1 + 0.4 * round};
      std::vector<std::unique_ptr<Parameter>> parameters;
      std::vector<ByTheFormula> right;
      Parameters all;
      int64_t owned = 0;
      for (int i = 0; i < 3; ++i) {
        const Shape shape = {check.random(cat("rows", round, i), 3, 9), 3};
        parameters.push_back(std::make_unique<Parameter>(backend, cat("p", i), shape, Init{Init::Constant, 1}));
        Parameter& p = *parameters.back();
        if (i > 0) p.own_part(dp);  // as FSDP does
        const auto start = backend.to_host(check.random(cat("start", round, i), shape));
        p.fill(start);
        right.push_back({{start.begin(), start.end()}, std::vector<double>(start.size(), 0), std::vector<double>(start.size(), 0)});
        all.push_back(&p);
        owned += numel(p.owned_box().size);
      }
      const auto part = [&](const Parameter& p, const Tensor& whole) {
        return backend.slice(whole, 0, p.owned_box().offset[0], p.owned_box().size[0]);
      };
      check.begin(cat("an optimizer for three parameters, ", owned, " numbers here"));
      AdamW optimizer(all, options);
      check.peak(MemoryClass::Optimizer, 2 * owned * size_of(DType::F32));
      for (int t = 1; t <= 3; ++t) {
        const double lr = 0.1 / t;
        check.begin(cat("step ", t, ", lr ", lr, ", betas ", options.beta1, " ", options.beta2, ", decay ", options.weight_decay));
        for (size_t i = 0; i < all.size(); ++i) {
          Parameter& p = *all[i];
          const Tensor gradient = check.random(cat("gradient", round, t, i), p.global());
          p.clear_gradient();
          if (p.owns_part())
            p.add_owned_gradient(part(p, gradient));
          else
            p.gradient() = backend.clone(gradient);
          right[i].step(backend.to_host(gradient), lr, options, t);
        }
        optimizer.step(lr);
        for (size_t i = 0; i < all.size(); ++i) {
          const std::vector<float> value(right[i].value.begin(), right[i].value.end());
          check.equal(cat("p", i, " after step ", t), all[i]->owned(), part(*all[i], backend.from_host(value, all[i]->global())), 1e-4);
        }
        check.equal("steps()", static_cast<double>(optimizer.steps()), t);
      }
    }
  });
}
