// y = x / sqrt(mean(x²) + eps) · weight, row by row. Zhang and Sennrich, arXiv:1910.07467
#pragma once

#include "chapters/04_sharded_linear/module.hpp"

namespace course {

// x, y [...,E]   weight [E], starts at 1. Rows do not see each other, so any split of them is right as it is: the
// layout of x is the layout of y. The weight's gradient is a sum over rows: a rank that holds some rows holds a term of
// it. Throws SharedError for an x cut over an axis on which that gradient is not Partial, and Error for a gradient of y
// that lies otherwise than x.
class RmsNorm : public Module {
 public:
  RmsNorm(Backend& backend, int64_t hidden, double eps = 1e-5);
  std::string kind() const override { return "RmsNorm"; }

  Parameter& weight;

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  float eps_;
  DTensor x_;
  Tensor rstd_;
};

}  // namespace course
