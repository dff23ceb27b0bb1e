// A loss whose mean and gradient are known beforehand: w times the sum of f(target). The model is run, and learns
// nothing.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "chapters/09_llama/loss.hpp"
#include "chapters/09_llama/token_data.hpp"

namespace course::test {

class CountedLoss : public Loss {
 public:
  CountedLoss(Backend& backend, int32_t ignore, double w, std::function<double(int32_t)> f)
      : Loss(backend, ignore), w_(w), f_(std::move(f)) {}

  double forward(DTensor logits, const Tensor& targets) override {
    sum_ = 0;
    for (const int32_t target : backend_->to_host<int32_t>(targets)) sum_ += target == ignore() ? 0 : f_(target);
    logits_ = std::move(logits);
    return w_ * sum_;
  }
  // Adds to the gradient of w what this rank's tokens give; that of the logits is 0.
  DTensor backward(double divisor) override {
    gradient += sum_ / divisor;
    const bool laid_out = logits_.has_layout();
    std::optional<Layout> layout;
    if (laid_out) layout = logits_.layout();
    Tensor zeros = backend_->zeros(logits_.local().shape());
    return layout ? DTensor(std::move(zeros), *layout) : DTensor(std::move(zeros));
  }

  double gradient = 0;

 private:
  double w_, sum_ = 0;
  std::function<double(int32_t)> f_;
  DTensor logits_;
};

// B03's data: one sample with 1 valid label and one with 9, which dp ranks 0 and 1 read; id 0 is ignored. The labels
// add up to the case's loss sums.
inline TokenData b03_data(const nlohmann::json& input) {
  const auto valid = input.at("valid_labels").get<std::vector<int32_t>>(),
             sums = input.at("loss_sum_over_w").get<std::vector<int32_t>>();
  const int32_t S = std::max(valid[0], valid[1]);
  std::vector<int32_t> tokens = {0};
  for (const int sample : {0, 1})
    for (int32_t s = 0; s < S; ++s) tokens.push_back(s < valid[sample] ? sums[sample] / valid[sample] : 0);
  return {S, std::move(tokens)};
}

}  // namespace course::test
