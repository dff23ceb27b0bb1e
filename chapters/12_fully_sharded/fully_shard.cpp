#include "chapters/12_fully_sharded/fully_shard.hpp"

#include <utility>

#include "common/chunk.hpp"

namespace course {

FsdpUnit::FsdpUnit(const Parameters& parameters, DeviceMesh dp) : dp_(std::move(dp)), counts_(dp_.size(), 0) {
  for (Parameter* p : parameters) {
    p->own_part(dp_);
    const Shape& part = p->box().size;
    pieces_.push_back({p, part[0], numel(Shape(part.begin() + 1, part.end())), {}});
  }
  for (int64_t r = 0; r < dp_.size(); ++r)
    for (auto& piece : pieces_) {
      piece.offsets.push_back(total_);
      const int64_t size = chunk(piece.rows, dp_.size(), r).size * piece.row;
      counts_[r] += size;
      total_ += size;
    }
}

double FsdpUnit::bytes() const { return static_cast<double>(total_ * size_of(type())); }

void FsdpUnit::start_unshard() {
  if (pieces_.front().parameter->gathered() || gather_.work) return;
  const MemoryScope scope(MemoryClass::Buffers);  // what is gathered is borrowed; owned are the parts
  Backend& backend = dp_.backend();
  // exercise fsdp {
  Tensor own = backend.empty({counts_[dp_.coordinate()]});
  int64_t at = 0;
  for (const auto& piece : pieces_) {
    const Tensor& part = piece.parameter->owned();
    backend.copy_blocks(part, 0, 0, own, at, 0, 1, part.numel());
    at += part.numel();
  }
  gather_.own = backend.in_type(std::move(own), type());
  gather_.all = backend.empty({total_}, type());
  gather_.work = in_flight_->add(dp_.comm().all_gather(gather_.own, gather_.all, counts_));
  // } exercise
}

void FsdpUnit::unshard() {
  if (pieces_.front().parameter->gathered()) return;
  start_unshard();
  gather_.work->wait();
  const Tensor all = std::exchange(gather_, {}).all;
  const MemoryScope scope(MemoryClass::Buffers);
  Backend& backend = dp_.backend();
  for (const auto& piece : pieces_) {
    Tensor whole = backend.empty(piece.parameter->box().size, type());
    for (int64_t r = 0; r < dp_.size(); ++r) {
      const Chunk rows = chunk(piece.rows, dp_.size(), r);
      backend.copy_blocks(all, piece.offsets[r], 0, whole, rows.offset * piece.row, 0, 1, rows.size * piece.row);
    }
    piece.parameter->gather(std::move(whole));
  }
}

void FsdpUnit::reshard() {
  if (held_) return;
  // exercise fsdp {
  for (const auto& piece : pieces_) piece.parameter->release();
  // } exercise
}

void FsdpUnit::start_reduce() {
  const MemoryScope scope(MemoryClass::Buffers);
  Backend& backend = dp_.backend();
  // exercise fsdp {
  reduce_.all = backend.empty({total_});
  reduce_.own = backend.empty({counts_[dp_.coordinate()]});
  for (const auto& piece : pieces_) {
    const Tensor whole = piece.parameter->take_gradient();
    for (int64_t r = 0; r < dp_.size(); ++r) {
      const Chunk rows = chunk(piece.rows, dp_.size(), r);
      backend.copy_blocks(whole, rows.offset * piece.row, 0, reduce_.all, piece.offsets[r], 0, 1, rows.size * piece.row);
    }
  }
  reduce_.work = in_flight_->add(dp_.comm().reduce_scatter(reduce_.all, reduce_.own, counts_));
  // } exercise
}

void FsdpUnit::finish_reduce() {
  if (!reduce_.work) return;
  reduce_.work->wait();
  const Tensor own = std::exchange(reduce_, {}).own;
  int64_t at = 0;
  const MemoryScope reduced(MemoryClass::Gradients);
  for (const auto& piece : pieces_) {
    Tensor part = dp_.backend().empty(piece.parameter->owned_box().size);
    dp_.backend().copy_blocks(own, at, 0, part, 0, 0, 1, part.numel());
    at += part.numel();
    piece.parameter->add_owned_gradient(std::move(part));
  }
}

void FsdpUnit::hold(bool yes) {
  held_ = yes;
  if (yes)
    unshard();
  else
    reshard();
}

std::shared_ptr<FsdpUnit> fully_shard(Module& module, const DeviceMesh& dp, bool reshard_after_forward) {
  require_shared(dp.dims() == 1, "fully_shard takes a mesh of one axis, not ", dp.show(), ": pass mesh[\"dp\"]");
  Parameters mine;
  for (Parameter* p : parameters_of(module))
    if (!p->owns_part()) mine.push_back(p);
  require_shared(!mine.empty(), "fully_shard: every parameter of this ", module.kind(), " belongs to a unit already");

  const auto unit = std::make_shared<FsdpUnit>(mine, dp);
  unit->outermost_ = mine.size() < parameters_of(module).size();
  Hooks hooks;
  hooks.before_forward = [unit](DTensor x) {
    unit->unshard();
    if (unit->next_) unit->next_->start_unshard();
    return x;
  };
  hooks.after_forward = [unit, reshard_after_forward, &module](DTensor y) {
    if (reshard_after_forward || !module.training()) unit->reshard();
    return y;
  };
  hooks.before_backward = [unit](DTensor dy) {
    unit->unshard();
    if (unit->previous_) unit->previous_->start_unshard();
    return dy;
  };
  hooks.after_backward = [unit](DTensor dx) {
    unit->reshard();
    if (unit->next_) unit->next_->finish_reduce();
    unit->start_reduce();
    if (unit->outermost_ || !unit->next_) unit->finish_reduce();
    return dx;
  };
  module.wrap(std::move(hooks));
  return unit;
}

void run_in_order(const std::vector<std::shared_ptr<FsdpUnit>>& units, InFlight& in_flight) {
  require_shared(!units.empty() && units[0]->outermost_, "run_in_order: the first unit is the one around the others");
  for (size_t i = 0; i < units.size(); ++i) {
    FsdpUnit &unit = *units[i], &next = *units[(i + 1) % units.size()];
    unit.next_ = &next;
    next.previous_ = &unit;
    unit.in_flight_ = &in_flight;
  }
}

}  // namespace course

// Exercise 12 fsdp
// Task: The messages of a unit. start_unshard: pack this rank's parts (parameter->owned()) one behind the other, turn
// them into the unit's type() (backend.in_type) in gather_.own, and start the all-gather into gather_.all, of that type
// too. reshard: let the whole values go. start_reduce: lay the whole gradients (take_gradient()) into reduce_.all so
// that what belongs to rank r stands together, at piece.offsets[r], and start the reduce-scatter into reduce_.own.
// Start with in_flight_->add(...), whose result is the transfer's work; others wait for it.
// Hint: counts_[r] elements are rank r's, of all parameters together; total_ is their sum.
// Hint: rank r's part of a parameter are its rows chunk(piece.rows, ranks, r); backend.copy_blocks copies a run of
// elements.
// Hint: gradients are added, not averaged: the loss is divided by the tokens of the whole batch already.
// Why: A parameter is whole only while it computes. All that is kept between steps, the optimizer's two moments with
// it, shrinks by the number of ranks, for half as many bytes again as plain data parallelism sends.
// Wrong averaged: The gradients are divided by the number of ranks. The loss has been divided by the tokens of the
// global batch already.
//   - reduce_.work = in_flight_->add(dp_.comm().reduce_scatter(reduce_.all, reduce_.own, counts_));
//   + backend.scale(reduce_.all, 1.0f / static_cast<float>(dp_.size()));
//   + reduce_.work = in_flight_->add(dp_.comm().reduce_scatter(reduce_.all, reduce_.own, counts_));
// Wrong kept_whole: The whole values are kept after use, so every rank holds the whole model, and what the optimizer
// changes is not seen.
//   - for (const auto& piece : pieces_) piece.parameter->release();
//   + for (const auto& piece : pieces_) (void)piece;
// Wrong not_packed_by_rank: The gradients lie parameter after parameter, but what is scattered are runs of the buffer:
// all that belongs to rank 0 must come first, then what belongs to rank 1.
//   - backend.copy_blocks(whole, rows.offset * piece.row, 0, reduce_.all, piece.offsets[r], 0, 1, rows.size * piece.row);
//   + if (r == 0) at_of_rank = &piece == &pieces_.front() ? 0 : at_of_rank;
//   + backend.copy_blocks(whole, rows.offset * piece.row, 0, reduce_.all, at_of_rank, 0, 1, rows.size * piece.row);
//   + at_of_rank += rows.size * piece.row;
//   - reduce_.own = backend.empty({counts_[dp_.coordinate()]});
//   + reduce_.own = backend.empty({counts_[dp_.coordinate()]});
//   + int64_t at_of_rank = 0;
// Wrong gradient_not_taken: The whole gradient is read and stays where it is, so every rank keeps the gradients of the
// whole model, and the next backward adds to what is summed already. Take it.
//   - const Tensor whole = piece.parameter->take_gradient();
//   + const Tensor& whole = piece.parameter->gradient();
// Wrong f32_travels: The parts travel in f32, whatever the unit computes in: twice the bytes of bf16. Cast what is sent to
// type(), and receive in it.
//   - gather_.own = backend.in_type(std::move(own), type());
//   - gather_.all = backend.empty({total_}, type());
//   + gather_.own = std::move(own);
//   + gather_.all = backend.empty({total_});
// Wrong one_place: Every part is copied to the start of the buffer, over the one before. The next begins where this one
// ends.
//   - at += part.numel();
// Wrong all_reduced: Right, and it sends too much: each rank gets all of the summed gradients to keep its own. A
// reduce-scatter gives it just those.
//   - reduce_.work = in_flight_->add(dp_.comm().reduce_scatter(reduce_.all, reduce_.own, counts_));
//   + dp_.comm().all_reduce(reduce_.all).wait();
//   + int64_t before = 0;
//   + for (int64_t r = 0; r < dp_.coordinate(); ++r) before += counts_[r];
//   + backend.copy_blocks(reduce_.all, before, 0, reduce_.own, 0, 0, 1, reduce_.own.numel());
//   + reduce_.work = std::make_shared<Work>();
