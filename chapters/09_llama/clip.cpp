#include "chapters/09_llama/clip.hpp"

#include <cmath>

namespace course {

double squared_norm(const Parameters& parameters) {
  double sum = 0;
  for (Parameter* p : parameters) sum += p->backend().squared_norm(p->owned_gradient());
  return sum;
}

double clip_gradients(const Parameters& parameters, double norm, double max_norm) {
  require_shared(std::isfinite(norm), "the gradient's norm is ", norm, ": the weights stay as they were");
  const double factor = std::min(1.0, max_norm / (norm + 1e-6));
  if (factor < 1)
    for (Parameter* p : parameters) p->backend().scale(p->owned_gradient(), static_cast<float>(factor));
  return factor;
}

}  // namespace course
