// y = x Wᵀ + b.
#pragma once

#include "chapters/04_sharded_linear/module.hpp"

namespace course {

// I in_features  O out_features  P ranks of tp
//   x [...,I]   weight [O,I]   bias [O]   y [...,O]
// Cut by columns (ColwiseParallel) a rank holds weight [O/P,I] and bias [O/P], and gives y [...,O/P]; cut by rows
// (RowwiseParallel) it holds weight [O,I/P] and takes x [...,I/P], and its y is a term of a sum.
// Starts as PyTorch's: U(±1/√I) for weight and bias, I of the whole.
class Linear : public Module {
 public:
  Linear(Backend& backend, int64_t in_features, int64_t out_features, bool bias = false);
  std::string kind() const override { return "Linear"; }

  Parameter& weight;
  Parameter* bias;  // null where there is none

  // Cut by rows, every rank would add the bias once to its term, so that the sum had it P times. One rank adds it.
  void add_bias_here(bool yes) { adds_bias_ = yes; }

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  bool adds_bias_ = true;
  DTensor x_;
};

}  // namespace course
