// AdamW over the parts that this rank owns: what it costs in memory shrinks with every cut.
// Loshchilov and Hutter, arXiv:1711.05101; defaults and order of operations are PyTorch's.
#pragma once

#include <string>
#include <vector>

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0.1;
};

class AdamW {
 public:
  // The moments start at zero, with the shapes of the owned parts. The parameters are filled and outlive the optimizer.
  AdamW(Parameters parameters, AdamWOptions options = {});

  void step(double lr);  // one step with the owned gradients; counts itself from 1
  int64_t steps() const { return steps_; }
  void resume_at(int64_t steps) { steps_ = steps; }

  const Parameters& parameters() const { return parameters_; }
  Tensor& mean(size_t i) { return moments_[i].mean; }      // exp_avg of parameter i
  Tensor& square(size_t i) { return moments_[i].square; }  // exp_avg_sq

 private:
  struct Moments {
    Tensor mean, square;
  };
  Parameters parameters_;
  AdamWOptions options_;
  std::vector<Moments> moments_;
  int64_t steps_ = 0;
};

}  // namespace course
