// The flags of the training programs of chapters 10 to 13, checkpoints included.
#pragma once

#include "chapters/09_llama/training_options.hpp"
#include "common/support/session.hpp"

namespace course {

// Flags, settled: a resumed run's schedule is that of its checkpoint unless flags say otherwise.
TrainingOptions read_options(const std::string& program, const std::string& what, const TrainingOptions::Takes& takes,
                             Session& session);

}  // namespace course
