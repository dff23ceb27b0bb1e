#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

void sum_packed_gradients(const Parameters& parameters, const DeviceMesh& axis) {
  if (parameters.empty() || axis.size() == 1) return;
  Backend& backend = axis.backend();
  int64_t total = 0;
  for (Parameter* p : parameters) total += p->owned_gradient().numel();
  const MemoryScope scope(MemoryClass::Buffers);
  Tensor packed = backend.empty({total});
  int64_t at = 0;
  for (Parameter* p : parameters) {
    const Tensor& grad = p->owned_gradient();
    backend.copy_blocks(grad, 0, 0, packed, at, 0, 1, grad.numel());
    at += grad.numel();
  }
  axis.comm().all_reduce(packed).wait();
  at = 0;
  for (Parameter* p : parameters) {
    Tensor& grad = p->owned_gradient();
    backend.copy_blocks(packed, at, 0, grad, 0, 0, 1, grad.numel());
    at += grad.numel();
  }
}

}  // namespace course
