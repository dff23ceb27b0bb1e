#include "chapters/09_llama/adamw.hpp"

namespace course {

AdamW::AdamW(Parameters parameters, AdamWOptions options) : parameters_(std::move(parameters)), options_(options) {
  const MemoryScope scope(MemoryClass::Optimizer);
  for (Parameter* p : parameters_) {
    const Shape& part = p->owned_box().size;
    moments_.push_back({p->backend().zeros(part), p->backend().zeros(part)});
  }
}

void AdamW::step(double lr) {
  const AdamWStep step{lr, options_.beta1, options_.beta2, options_.eps, options_.weight_decay, ++steps_};
  std::vector<AdamWTensors> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    all.push_back({p.owned(), p.owned_gradient(), moments_[i].mean, moments_[i].square});
  }
  if (!all.empty()) parameters_[0]->backend().adamw(all, step);
}

}  // namespace course
