// Clipping by the global norm, as torch.nn.utils.clip_grad_norm_. Pascanu, Mikolov, Bengio, arXiv:1211.5063
#pragma once

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// Σ g² over the owned gradients, in double. One rank's share of the squared norm.
double squared_norm(const Parameters& parameters);

// Scales every owned gradient by min(1, max_norm / (norm + 1e-6)); returns the factor. A norm that is not finite is refused
// before it can spoil the weights: throws SharedError (every rank has the same norm).
double clip_gradients(const Parameters& parameters, double norm, double max_norm);

}  // namespace course
