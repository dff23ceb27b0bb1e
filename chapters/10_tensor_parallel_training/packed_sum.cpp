#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

void PackedSum::start(InFlight& in_flight) {
  if (parameters_.empty() || axis_.size() == 1) return;
  Backend& backend = axis_.backend();
  int64_t total = 0;
  for (Parameter* p : parameters_) total += p->owned_gradient().numel();
  const MemoryScope scope(MemoryClass::Buffers);
  packed_ = backend.empty({total});
  int64_t at = 0;
  for (Parameter* p : parameters_) {
    const Tensor& grad = p->owned_gradient();
    backend.copy_blocks(grad, 0, 0, packed_, at, 0, 1, grad.numel());
    at += grad.numel();
  }
  work_ = in_flight.add(axis_.comm().all_reduce(packed_));
}

void PackedSum::finish() {
  if (!started()) return;
  work_->wait();
  work_ = nullptr;
  int64_t at = 0;
  for (Parameter* p : parameters_) {
    Tensor& grad = p->owned_gradient();
    axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
    at += grad.numel();
  }
  packed_ = {};
}

void sum_packed_gradients(const Parameters& parameters, const DeviceMesh& axis) {
  InFlight in_flight;
  PackedSum sum(parameters, axis);
  sum.start(in_flight);
  sum.finish();
}

}  // namespace course
