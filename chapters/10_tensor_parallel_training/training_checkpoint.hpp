// A training as a checkpoint: weights and both moments, the step (which is also the position in the data and the
// schedule), the seeds, and the flags that must agree for a resumed run to go on where it was.
#pragma once

#include <string>

#include "chapters/09_llama/adamw.hpp"
#include "chapters/09_llama/training_options.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"

namespace course {

class TrainingCheckpoints {
 public:
  // Everything given outlives it. world: the ranks of the mesh. Throws SharedError when --save holds another run's
  // checkpoints and --resume does not go on with them, or cannot be written.
  TrainingCheckpoints(const TrainingOptions& options, AdamW& optimizer, const DeviceMesh& mesh, Comm& world);

  // --resume: loads the weights, the moments and the step. Without --resume nothing happens. Throws SharedError when
  // the checkpoint is of another model, batch, sequence length or sample kind.
  void resume();
  // Saves when --save-every says so, at the last step, or when the run is stopping. Call after each step.
  void after_step(int64_t step, bool stopping = false);

 private:
  std::vector<CheckpointTensor> tensors() const;
  nlohmann::json state() const;

  const TrainingOptions* options_;
  AdamW* optimizer_;
  DeviceMesh mesh_;
  Comm* world_;
};

// Before settle(): --steps, --warmup and --lr of a resumed run are those of its checkpoint unless given anew.
void take_schedule_from_checkpoint(TrainingOptions& options, const Cli& cli, Comm& world);

}  // namespace course
