// The cross-entropy of the next token, in two halves: the sum over this rank's tokens forward, and the gradient of sum/divisor
// backward. The divisor is the number of valid tokens of the global batch, on every mesh: a mean of means is wrong where ranks
// hold different numbers of padding.
#pragma once

#include "chapters/03_device_mesh/dtensor.hpp"

namespace course {

// N tokens  V vocabulary
class Loss {
 public:
  Loss(Backend& backend, int32_t ignore) : backend_(&backend), ignore_(ignore) {}
  virtual ~Loss() = default;

  // logits [...,V] and targets [...] i32 of as many tokens. Returns the sum over targets that are not `ignore`, 0 where all are
  // (PyTorch's mean is nan there; a step without a valid token changes nothing here). Throws Error for a target that is neither
  // an id nor `ignore`.
  virtual double forward(DTensor logits, const Tensor& targets) = 0;
  // The gradient of the last forward's sum / divisor, laid out as the logits were. A divisor of 0 gives zeros.
  virtual DTensor backward(double divisor) = 0;

  // Lets go of what forward kept for a backward that will not come: after validation.
  void forget();

  int64_t valid(const Tensor& targets) const;  // how many are not `ignore`
  int32_t ignore() const { return ignore_; }
  const std::vector<double>& token_losses() const { return token_losses_; }  // of the last forward, 0 where ignored

 protected:
  void check_targets(const Tensor& targets, int64_t tokens, int64_t vocabulary) const;
  // From the softmax's parts, [N] each: log(sum) + max - picked where the target counts. Keeps them and returns their sum.
  double add_up(const Tensor& max, const Tensor& sum, const Tensor& picked, const Tensor& targets);
  static float factor(double divisor) { return divisor > 0 ? static_cast<float>(1 / divisor) : 0; }

  Backend* backend_;
  int32_t ignore_;
  DTensor logits_;              // kept by forward, moved out by backward
  Tensor max_, sum_, targets_;  // [N] each

 private:
  std::vector<double> token_losses_;
};

// On whole logits.
class CrossEntropy : public Loss {
 public:
  using Loss::Loss;
  double forward(DTensor logits, const Tensor& targets) override;
  DTensor backward(double divisor) override;
};

}  // namespace course
