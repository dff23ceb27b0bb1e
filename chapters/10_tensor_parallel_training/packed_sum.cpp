#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

void PackedSum::start(InFlight& in_flight) {
  if (parameters_.empty() || axis_.size() == 1) return;
  // exercise packed {
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
  // } exercise
}

void PackedSum::finish() {
  if (!started()) return;
  work_->wait();
  work_ = nullptr;
  // exercise packed {
  int64_t at = 0;
  for (Parameter* p : parameters_) {
    Tensor& grad = p->owned_gradient();
    axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
    at += grad.numel();
  }
  packed_ = {};
  // } exercise
}

void sum_packed_gradients(const Parameters& parameters, const DeviceMesh& axis) {
  InFlight in_flight;
  PackedSum sum(parameters, axis);
  sum.start(in_flight);
  sum.finish();
}

}  // namespace course

// Exercise 10 packed
// Task: Many gradients, one all-reduce. start packs the owned gradients of all parameters one behind the other into
// packed_ (a tensor of class Buffers, made here) and starts its all-reduce over axis_, which in_flight.add turns into
// work_. finish, once that is over, puts each sum back in its gradient's place and lets packed_ go.
// Hint: MemoryScope (common/memory_class.hpp) says of which class tensors are that are made while it lives.
// Hint: backend.copy_blocks(from, from offset, 0, to, to offset, 0, 1, elements) copies a run of elements.
// Hint: the next gradient begins where the one before it ends, on both ways.
// Why: A message has a price of its own, and a norm's gradient is a few hundred numbers: one message for all of them
// costs as many bytes, and one latency.
// Wrong one_message_each: Right, and it sends too many messages: each gradient is reduced by itself. Pack them.
//   - work_ = in_flight.add(axis_.comm().all_reduce(packed_));
//   + for (Parameter* p : parameters_) axis_.comm().all_reduce(p->owned_gradient()).wait();
//   + work_ = std::make_shared<Work>();
//   - axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
// Wrong not_a_buffer: The message is counted with the tensors of another class, and the table of memory says something else than
// what is there. It is made under a MemoryScope of Buffers.
//   - const MemoryScope scope(MemoryClass::Buffers);
// Wrong kept: The message is kept after finish, as many bytes as all those gradients, until the next step.
//   - packed_ = {};
// Wrong mean: The sum is divided by the ranks. Each rank has a term of the gradient; the terms are added.
//   - work_ = in_flight.add(axis_.comm().all_reduce(packed_));
//   + backend.scale(packed_, 1.0f / static_cast<float>(axis_.size()));
//   + work_ = in_flight.add(axis_.comm().all_reduce(packed_));
// Wrong all_from_the_front: Every gradient gets the first numbers of the packed sums back. The next begins where the
// one before ends.
//   - axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
//   + axis_.backend().copy_blocks(packed_, 0, 0, grad, 0, 0, 1, grad.numel());
// Wrong own_term_twice: The sum is added to the gradient. This rank's term is in the sum already: put the sum in its
// place.
//   - axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
//   + Tensor sum = axis_.backend().empty(grad.shape());
//   + axis_.backend().copy_blocks(packed_, at, 0, sum, 0, 0, 1, grad.numel());
//   + axis_.backend().add(grad, sum);
// Wrong not_put_back: The sums stay in the message, and each rank goes on with its own term.
//   - axis_.backend().copy_blocks(packed_, at, 0, grad, 0, 0, 1, grad.numel());
// Wrong gathered_and_added: Right, and it holds and sends too much: every rank gets the packed gradients of all ranks
// to add them up itself.
//   - work_ = in_flight.add(axis_.comm().all_reduce(packed_));
//   + const int64_t ranks = axis_.size();
//   + Tensor all = backend.empty({ranks * total});
//   + axis_.comm().all_gather(packed_, all, std::vector<int64_t>(ranks, total)).wait();
//   + packed_ = backend.zeros({total});
//   + Tensor one = backend.empty({total});
//   + for (int64_t r = 0; r < ranks; ++r) {
//   +   backend.copy_blocks(all, r * total, 0, one, 0, 0, 1, total);
//   +   backend.add(packed_, one);
//   + }
//   + work_ = std::make_shared<Work>();
