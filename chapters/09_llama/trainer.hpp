// One training step, and the loss on text that was not trained on. Written once: what a parallel run does in addition
// stands in two small sets of functions that later chapters fill.
#pragma once

#include <functional>
#include <vector>

#include "chapters/09_llama/adamw.hpp"
#include "chapters/09_llama/llama.hpp"
#include "chapters/09_llama/loss.hpp"
#include "chapters/09_llama/lr_schedule.hpp"
#include "chapters/09_llama/token_data.hpp"
#include "common/support/activity.hpp"

namespace course {

// How the ranks of a data-parallel axis share a batch (chapter 12). On one rank: all of it, and sums are what they are.
struct DataShare {
  std::function<std::vector<int64_t>(const std::vector<int64_t>&)> mine = [](const auto& samples) { return samples; };
  std::function<double(double)> sum = [](double x) { return x; };  // over the axis; every rank calls
  // Told a hash of the tokens that come next, a step's or a batch's to validate with: ranks that work on one sample
  // together compare it (chapter 10). Every rank calls.
  std::function<void(uint64_t tokens)> compare = [](uint64_t) {};
};

// What lies between backward and the optimizer. On one rank: nothing to reduce.
struct GradientSteps {
  // Sums that are still to be made (chapter 10).
  std::function<void(const Parameters&)> finish = [](const Parameters&) {};
  std::function<double(const Parameters&)> norm;  // of all gradients of the model; empty: of one rank's
};

struct TrainerOptions {
  LrSchedule schedule;
  double max_norm = 1;
  int64_t accumulate = 1;  // micro-batches a step
};

struct StepResult {
  int64_t step;  // counts complete steps, from 1
  double loss;   // the mean over all valid tokens of the global batch
  double grad_norm, lr;
  int64_t tokens;  // valid ones of the global batch
};

// A step whose loss or gradient is not finite. Every rank sees it; the weights are still those before the step.
class NonFiniteStep : public SharedError {
 public:
  using SharedError::SharedError;
};

class Trainer {
 public:
  // Everything given outlives the trainer. `next` gives the samples of a global batch.
  Trainer(Llama& llama, AdamW& optimizer, Loss& loss, const TokenData& data, Sampler next, TrainerOptions options,
          DataShare share = {}, GradientSteps gradients = {});

  // Step n (from 1) uses batch n-1 and rate n-1. A batch without a valid token is counted and changes nothing: no
  // decay, no moments. Collective over the mesh. Throws NonFiniteStep, with the step's number and before the weights
  // change, when the gradient's norm or the loss is not finite; the same step may be tried again then.
  StepResult step();
  int64_t steps() const { return optimizer_->steps(); }

  // The mean loss over the first `most` samples of held-out data, in batches of `batch`. No gradients. Every sample
  // counts once on every mesh: a rank without a sample computes on an empty batch.
  double validate(const TokenData& held, int64_t batch, int64_t most);

  void watch(Activity* activity) { activity_ = activity; }  // hears of the phases of a step; may be null
  // Called in each step when the gradients are complete, before they are judged and clipped. Empty: nobody.
  void on_gradients(std::function<void(int64_t step)> look) { look_ = std::move(look); }
  Llama& model() { return *llama_; }

 private:
  double forward(const Batch& batch);

  Llama* llama_;
  AdamW* optimizer_;
  Loss* loss_;
  const TokenData* data_;
  Sampler next_;
  TrainerOptions options_;
  DataShare share_;
  GradientSteps gradients_;
  Activity* activity_ = nullptr;
  std::function<void(int64_t)> look_;
};

}  // namespace course
