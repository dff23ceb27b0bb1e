// Sharded checkpoints: every rank writes the parts it speaks for, and an index says which box of which tensor each part
// is. Loading intersects boxes, so a checkpoint of any mesh resumes on any other.
//
//   DIR/step-00000008/
//     index.json              every piece: name, file, global shape, offset, size, hash; the state; a hash of all this
//     rank-0003.safetensors   the pieces of rank 3, named NAME@BOX: lm_head.weight@[0:256,0:64]
//
// A folder step-… is complete or absent: it is written as DIR/.step-….writing, synced, then renamed. Whoever is killed
// meanwhile leaves such a folder behind, and the checkpoints before it as they were.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// One tensor of a checkpoint: the part of it that this rank holds, and whether it is the one to save it.
struct CheckpointTensor {
  std::string name;  // "model.norm.weight", "exp_avg.model.norm.weight"
  Shape global;
  Box box;
  Tensor* part;
  bool speaks;
};

// Saves tensors and a state (steps, random state, ...: the same on every rank). Collective over world. Returns the
// folder. Throws SharedError, with the words of the rank that failed, when the folder cannot be made or written, as on a
// full disk; nothing that was complete before is touched, nothing half written stays. A step that is there already is
// replaced, in one step where the file system can; else the old one is aside for a moment, whole (tidy_checkpoints).
std::string save_checkpoint(const std::string& dir, int64_t step, const std::vector<CheckpointTensor>& tensors,
                            const nlohmann::json& state, Comm& world, Backend& backend);

// Takes away what killed runs left half written in dir, and gives its name back to a checkpoint that was about to be
// replaced. Only for the one run that saves there, before it does.
void tidy_checkpoints(const std::string& dir);

// Fills the parts from a complete folder and returns its state. Collective over world. Throws SharedError for a missing
// or unreadable index or file, a tensor that the checkpoint lacks or holds in another shape, a part that no piece
// covers, and a piece or an index whose hash is not the one written down (each names the file).
nlohmann::json load_checkpoint(const std::string& folder, const std::vector<CheckpointTensor>& tensors, Comm& world,
                               Backend& backend);

// The state alone.
nlohmann::json read_checkpoint_state(const std::string& folder, Comm& world);

// What --resume means: the folder itself if it is a checkpoint, else DIR's newest complete one. One that is aside, about to be
// replaced when its run was killed, is found by its own name, and read there, before tidy_checkpoints and after it. Every rank
// looks, for nodes may have disks of their own. Throws SharedError when there is none, or when not all see the same.
std::string find_checkpoint(const std::string& path, Comm& world);
// The newest complete checkpoint in dir, if any; rank 0 looks.
std::optional<std::string> newest_checkpoint(const std::string& dir, Comm& world);

}  // namespace course
