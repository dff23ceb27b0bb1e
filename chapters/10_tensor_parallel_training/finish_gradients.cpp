#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"

namespace course {

void finish_gradients(const Parameters& parameters, const DeviceMesh& tp) {
  Parameters partial;
  int64_t total = 0;
  for (Parameter* p : parameters)
    if (is_partial(p->grad_placement(tp.name(0)))) {
      partial.push_back(p);
      total += p->owned_gradient().numel();
    }
  if (partial.empty() || tp.size() == 1) return;

  Backend& backend = tp.backend();
  Tensor packed = backend.empty({total});
  int64_t at = 0;
  for (Parameter* p : partial) {
    const Tensor& grad = p->owned_gradient();
    backend.copy_blocks(grad, 0, 0, packed, at, 0, 1, grad.numel());
    at += grad.numel();
  }
  tp.comm().all_reduce(packed).wait();
  at = 0;
  for (Parameter* p : partial) {
    Tensor& grad = p->owned_gradient();
    backend.copy_blocks(packed, at, 0, grad, 0, 0, 1, grad.numel());
    at += grad.numel();
  }
}

}  // namespace course
