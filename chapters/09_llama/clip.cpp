#include "chapters/09_llama/clip.hpp"

#include <cmath>

namespace course {

double squared_norm(const Parameters& parameters) {
  // exercise clip {
  double sum = 0;
  for (Parameter* p : parameters) sum += p->backend().squared_norm(p->owned_gradient());
  return sum;
  // } exercise
}

double clip_gradients(const Parameters& parameters, double norm, double max_norm) {
  require_shared(std::isfinite(norm), "the gradient's norm is ", norm, ": the weights stay as they were");
  // exercise clip {
  const double factor = std::min(1.0, max_norm / (norm + 1e-6));
  if (factor < 1)
    for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
  return factor;
  // } exercise
}

}  // namespace course

// Exercise 09 clip
// Task: squared_norm adds the squares of all owned gradients, in double. clip_gradients scales every owned gradient by
// one factor, min(1, max_norm / (norm + 1e-6)), and returns it; `norm` is that of all gradients together.
// Hint: one norm, one factor, for all parameters: the direction of the step must not change.
// Hint: gradients that are short enough stay as they are.
// Why: Clipping shortens a step without turning it. The norm must therefore be of everything, all ranks' parts
// included, before the first gradient is touched; that it is one number is why a sharded model needs one all-reduce for
// it.
// Wrong each_by_itself: Every parameter is clipped by its own norm. That turns the step: clip all by one factor, of the
// norm of all.
//   - for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
//   + for (Parameter* p : parameters) {
//   +   const double own = std::sqrt(p->backend().squared_norm(p->owned_gradient()));
//   +   p->backend().scale(p->owned_gradient(), static_cast<float>(std::min(1.0, max_norm / (own + 1e-6))));
//   + }
// Wrong whole_gradient: It is p->gradient() that is scaled. Where a rank owns a part of a parameter, what the optimizer steps by is
// owned_gradient(), another tensor.
//   - for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
//   + for (Parameter* p : parameters) p->backend().scale(p->gradient(), static_cast<float>(factor));
// Wrong always_scaled: Short gradients are made longer, up to max_norm. The factor is 1 at the most.
//   - const double factor = std::min(1.0, max_norm / (norm + 1e-6));
//   - if (factor < 1)
//   -   for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
//   + const double factor = max_norm / (norm + 1e-6);
//   + for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
// Wrong adds_norms: The norms of the parameters are added. Squares add up, norms do not.
//   - for (Parameter* p : parameters) sum += p->backend().squared_norm(p->owned_gradient());
//   + for (Parameter* p : parameters) sum += std::sqrt(p->backend().squared_norm(p->owned_gradient()));
// Wrong first_only: Only the first parameter's gradient is scaled.
//   - for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
//   + if (!parameters.empty()) parameters[0]->backend().scale(parameters[0]->owned_gradient(), static_cast<float>(factor));
