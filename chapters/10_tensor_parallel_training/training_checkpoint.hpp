// A training as a checkpoint: weights and both moments, the step (which is also the position in the data and the
// schedule), the seeds, and the flags that must agree for a resumed run to go on where it was.
#pragma once

#include <memory>
#include <string>

#include "chapters/09_llama/adamw.hpp"
#include "chapters/09_llama/training_data.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "common/support/folder_lock.hpp"

namespace course {

class TrainingCheckpoints {
 public:
  // Everything given outlives it; the source is what this training reads, and is kept in its checkpoints. world: the
  // ranks of the mesh. Holds the folder of --save for this run. Throws SharedError when another run saves there now, when
  // it holds another run's checkpoints and --resume does not go on with them, when it cannot be written, or when a rank
  // sees another folder there than rank 0.
  TrainingCheckpoints(const TrainingOptions& options, AdamW& optimizer, const DeviceMesh& mesh, Comm& world,
                      const DataSource& source = {});

  // --resume: loads the weights, the moments and the step. Without --resume nothing is loaded. Says on rank 0's stderr
  // where the disk has room for some of the checkpoints to come alone. Throws SharedError when the checkpoint is of
  // another model, batch, sequence length or sample kind, of another tokenizer, or, unless --allow-other-text or no step
  // is left, of another text. One that does not say what its text was is taken at its word.
  void resume();
  // Saves when --save-every says so, at the last step, or when the run is stopping. Call after each step. Throws
  // SharedError, and leaves the checkpoints before it as they are, where a weight or a moment is not finite, or writing
  // failed.
  void after_step(int64_t step, bool stopping = false);

 private:
  void hold_folder();
  void load();
  void compare_source(const std::string& folder, const nlohmann::json& saved) const;
  void note_room() const;
  std::vector<CheckpointTensor> tensors() const;
  nlohmann::json state() const;

  const TrainingOptions* options_;
  AdamW* optimizer_;
  DeviceMesh mesh_;
  Comm* world_;
  DataSource source_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0
};

// After settle(), before anything large is made: throws SharedError unless the file system of --save has room for one
// checkpoint. Rank 0 looks. Collective.
void require_room_to_save(const TrainingOptions& options, Comm& world);

// Before settle(): --steps, --warmup and --lr of a resumed run are those of its checkpoint unless given anew.
void take_schedule_from_checkpoint(TrainingOptions& options, const Cli& cli, Comm& world);

}  // namespace course
