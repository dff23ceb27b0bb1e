// The same logits through both losses: gathered, and in parts.
#pragma once

#include <ostream>

#include "chapters/09_llama/training_options.hpp"
#include "chapters/11_loss_parallel/loss_parallel.hpp"
#include "common/comm/recorder.hpp"

namespace course {

// Random logits of a batch's shape, cut by vocabulary over the 1-D mesh. Prints loss, bytes sent and peak memory of the gathered
// way beside the parallel one. Throws SharedError when the losses or the gradients differ by more than 1e-5 relative.
// Collective over the mesh.
void compare_losses(std::ostream& out, const DeviceMesh& tp, const Traffic& traffic, const TrainingOptions& options);

}  // namespace course
