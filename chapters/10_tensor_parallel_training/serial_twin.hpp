// The same first step on one rank, to compare with.
#pragma once

#include "chapters/09_llama/training_loop.hpp"

namespace course {

// Rank 0 takes the first step of the training alone, whole, and compares loss and gradient norm with what the mesh
// gave; prints the differences. Throws SharedError when one is above 1e-4 relative. Models of more than 20 million
// parameters are not compared, and a line says so. Collective over the session's world.
void compare_with_serial(const StepResult& sharded, const TrainingOptions& options, const TrainingData& data,
                         Session& session);

}  // namespace course
