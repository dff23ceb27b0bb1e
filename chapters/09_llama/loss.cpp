#include "chapters/09_llama/loss.hpp"

#include <algorithm>
#include <cmath>

namespace course {

int64_t Loss::valid(const Tensor& targets) const {
  const auto ids = backend_->to_host<int32_t>(targets);
  return static_cast<int64_t>(ids.size()) - std::count(ids.begin(), ids.end(), ignore_);
}

void Loss::check_targets(const Tensor& targets, int64_t tokens, int64_t vocabulary) const {
  require(targets.numel() == tokens, targets.numel(), " targets for ", tokens, " rows of logits");
  const auto ids = backend_->to_host<int32_t>(targets);
  for (size_t i = 0; i < ids.size(); ++i)
    require(ids[i] == ignore_ || (ids[i] >= 0 && ids[i] < vocabulary), "target ", ids[i], " at place ", i,
            " is not in the vocabulary of ", vocabulary, " (and ", ignore_, " means none)");
}

double Loss::add_up(const Tensor& max, const Tensor& sum, const Tensor& picked, const Tensor& targets) {
  const auto m = backend_->to_host(max), s = backend_->to_host(sum), p = backend_->to_host(picked);
  const auto ids = backend_->to_host<int32_t>(targets);
  token_losses_.assign(ids.size(), 0);
  double total = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != ignore_) token_losses_[i] = std::log(double(s[i])) + (double(m[i]) - p[i]);
    total += token_losses_[i];
  }
  return total;
}

void Loss::forget() {
  logits_ = {};
  max_ = {}, sum_ = {}, targets_ = {};
}

double CrossEntropy::forward(DTensor logits, const Tensor& targets) {
  if (logits.has_layout())
    for (const Placement& p : logits.layout().placements)
      require(is_replicate(p), "the loss needs whole logits, not ", show(logits.layout()));
  const Tensor& l = logits.local();
  const int64_t V = l.dim(-1), N = l.numel() / V;
  check_targets(targets, N, V);
  max_ = backend_->empty({N});
  sum_ = backend_->empty({N});
  Tensor picked = backend_->empty({N});
  backend_->row_max(l, max_);
  backend_->row_sum_exp(l, max_, sum_);
  backend_->pick(l, targets, 0, picked);
  const double total = add_up(max_, sum_, picked, targets);
  targets_ = backend_->clone(targets);
  logits_ = std::move(logits);
  return total;
}

DTensor CrossEntropy::backward(double divisor) {
  const bool laid_out = logits_.has_layout();
  std::optional<Layout> layout;
  if (laid_out) layout = logits_.layout();
  Tensor gradient = std::move(logits_).take(*backend_);
  const Tensor max = std::move(max_), sum = std::move(sum_), targets = std::move(targets_);
  backend_->cross_entropy_backward(gradient, max, sum, targets, 0, ignore_, factor(divisor));
  return layout ? DTensor(std::move(gradient), *layout) : DTensor(std::move(gradient));
}

}  // namespace course
