#include "chapters/09_llama/trainer.hpp"

#include <cmath>

#include "chapters/09_llama/clip.hpp"
#include "common/chunk.hpp"

namespace course {

Trainer::Trainer(Llama& llama, AdamW& optimizer, Loss& loss, const TokenData& data, Sampler next,
                 TrainerOptions options, DataShare share, GradientSteps gradients)
    : llama_(&llama),
      optimizer_(&optimizer),
      loss_(&loss),
      data_(&data),
      next_(std::move(next)),
      options_(options),
      share_(std::move(share)),
      gradients_(std::move(gradients)) {
  if (!gradients_.norm)
    gradients_.norm = [](const Parameters& parameters) { return std::sqrt(squared_norm(parameters)); };
}

double Trainer::forward(const Batch& batch) {
  const Phase phase(activity_, "forward");
  llama_->context().attend = batch.attend.defined() ? &batch.attend : nullptr;
  return loss_->forward(llama_->forward(llama_->backend().clone(batch.ids)), batch.targets);
}

StepResult Trainer::step() {
  const Phase whole(activity_, "step");
  const int64_t n = steps() + 1;
  const std::vector<int64_t> mine = share_.mine(next_(n - 1));
  std::vector<Batch> micro;
  int64_t valid = 0;
  uint64_t hash = n;
  for (int64_t m = 0; m < options_.accumulate; ++m) {
    const Chunk part = chunk(static_cast<int64_t>(mine.size()), options_.accumulate, m);
    micro.push_back(make_batch(llama_->backend(), *data_, {mine.begin() + part.offset, mine.begin() + part.end()}));
    valid += loss_->valid(micro.back().targets);
    hash = 31 * hash + micro.back().hash;
  }
  share_.compare(hash);
  const double tokens = share_.sum(static_cast<double>(valid));

  clear_gradients(*llama_);
  double total = 0;
  for (const Batch& batch : micro) {
    total += forward(batch);
    const Phase phase(activity_, "backward");
    llama_->backward(loss_->backward(tokens));
  }
  llama_->context().attend = nullptr;  // it was the batch's
  total = share_.sum(total);

  const Phase phase(activity_, "optimizer");
  const Parameters& parameters = optimizer_->parameters();
  gradients_.finish(parameters);
  if (look_) look_(n);
  const double norm = gradients_.norm(parameters), lr = options_.schedule.at(n - 1);
  if (!std::isfinite(norm) || !std::isfinite(total))
    throw NonFiniteStep(cat("step ", n, ": the gradient's norm is ", norm, ", the loss ", total / tokens,
                            "; the weights stay as they were after step ", n - 1));
  clip_gradients(parameters, norm, options_.max_norm);
  if (tokens > 0)
    optimizer_->step(lr);
  else
    optimizer_->resume_at(n);
  clear_gradients(*llama_);
  return {n, tokens > 0 ? total / tokens : 0, norm, lr, static_cast<int64_t>(tokens)};
}

double Trainer::validate(const TokenData& held, int64_t batch, int64_t most) {
  const Phase phase(activity_, "validation");
  llama_->set_training(false);
  double total = 0, tokens = 0;
  const int64_t samples = std::min(held.samples(), most);
  for (int64_t begin = 0; begin < samples; begin += batch) {
    std::vector<int64_t> list;
    for (int64_t i = begin; i < std::min(begin + batch, samples); ++i) list.push_back(i);
    const Batch mine = make_batch(llama_->backend(), held, share_.mine(list));
    share_.compare(mine.hash);
    total += forward(mine);
    tokens += static_cast<double>(loss_->valid(mine.targets));
  }
  llama_->context().attend = nullptr;
  loss_->forget();
  llama_->set_training(true);
  total = share_.sum(total);
  tokens = share_.sum(tokens);
  return tokens > 0 ? total / tokens : 0;
}

}  // namespace course
