// The whole program of this chapter, but for its flags and its loss: chapter 11 runs it with another loss.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "chapters/09_llama/training_loop.hpp"

namespace course {

// Given the backend and the target that does not count.
using LossMaker = std::function<std::unique_ptr<Loss>(Backend&, int32_t ignore)>;

// Trains a Llama under options.plan on the 1-D mesh `tp`, whose groups write down in `traffic` what they send: data,
// model, plan, weights, optimizer, checkpoints, the loop; then the table of what was sent, the comparison with one
// rank, and a text if one is asked for. With options.loss_parallel the logits keep their cut, and make_loss must take
// them so. Collective over the session's world, which is the mesh.
void train_tensor_parallel(const std::string& program, Session& session, const TrainingOptions& options,
                           const DeviceMesh& tp, const Traffic& traffic, const LossMaker& make_loss);

}  // namespace course
