#include "chapters/09_llama/adamw.hpp"

namespace course {

AdamW::AdamW(Parameters parameters, AdamWOptions options) : parameters_(std::move(parameters)), options_(options) {
  const MemoryScope scope(MemoryClass::Optimizer);
  // exercise adamw {
  for (Parameter* p : parameters_) {
    const Shape& part = p->owned_box().size;
    moments_.push_back({p->backend().zeros(part), p->backend().zeros(part)});
  }
  // } exercise
}

void AdamW::step(double lr) {
  // exercise adamw {
  const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
  std::vector<AdamWTensors> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    all.push_back({p.owned_to_write(), p.owned_gradient(), moments_[i].mean, moments_[i].square});
  }
  if (!all.empty()) parameters_[0]->backend().adamw(all, step);
  // } exercise
}

}  // namespace course

// Exercise 09 adamw
// Task: The optimizer's memory and its step. The constructor makes a pair of zeros for every parameter, of what this
// rank owns of it. step hands all of them to backend().adamw at once, which does the arithmetic: an AdamWStep with the
// options and the number of the step, which counts from 1, and an AdamWTensors for each parameter: its value, its
// gradient, its mean and its mean of squares. Zeros come from p.backend().zeros(shape).
// Hint: what the optimizer changes is p.owned_to_write(), by p.owned_gradient(). It may be a part of what modules compute with.
// Hint: the moments start at 0, so they are too small at first. The step's number tells adamw by how much.
// Why: Every number of a parameter is stepped by itself, so a rank can step what it owns and nothing more. The two
// moments are twice the parameters' bytes: cut them over all ranks, and the largest part of what a training keeps from
// step to step shrinks by the number of ranks.
// Wrong moments_of_the_whole: Right on one rank, and too large on more: the moments have the size that modules compute
// with, though FSDP left this rank a part. It is the part that it owns that is stepped.
//   - const Shape& part = p->owned_box().size;
//   + const Shape& part = p->box().size;
// Wrong moments_like_value: The moments are made like value(), which FSDP gathers only while a module computes. It is the part that
// this rank owns that is stepped: owned_box().
//   - const Shape& part = p->owned_box().size;
//   + const Shape part = p->value().shape();
// Wrong counts_from_zero: The first step is number 1. Count it before the call.
//   - const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
//   + const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, steps_++};
// Wrong one_memory: Mean and mean of squares are kept in one tensor, each over the other.
//   - all.push_back({p.owned_to_write(), p.owned_gradient(), moments_[i].mean, moments_[i].square});
//   + all.push_back({p.owned_to_write(), p.owned_gradient(), moments_[i].mean, moments_[i].mean});
// Wrong always_the_first: Every step says that it is the first, so the moments are always taken for much too small.
//   - const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
//   + const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, 1};
//   + ++steps_;
// Wrong counted_by_parameter: The step's number grows with each parameter. It counts calls of step.
//   - const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
//   + steps_ += std::ssize(parameters_);
//   + const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, steps_};
// Wrong no_decay: The weights do not decay: that is Adam. AdamW takes lr · weight_decay of each weight away, beside the
// step.
//   - const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
//   + const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, 0, ++steps_};
// Wrong betas_swapped: beta1 is of the mean and beta2 of the mean of squares, which remembers longer.
//   - const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
//   + const AdamWStep step{lr, options_.beta2, options_.beta1, options_.eps, options_.weight_decay, ++steps_};
// Wrong moments_forgotten: The moments are zeros anew in each step, so nothing is remembered of the steps before.
//   - all.push_back({p.owned_to_write(), p.owned_gradient(), moments_[i].mean, moments_[i].square});
//   + p.backend().scale(moments_[i].mean, 0);
//   + p.backend().scale(moments_[i].square, 0);
//   + all.push_back({p.owned_to_write(), p.owned_gradient(), moments_[i].mean, moments_[i].square});
