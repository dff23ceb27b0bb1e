// The mean loss of a batch whose tokens lie on several ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

// losses[i] is that of this rank's token i, whose label is labels[i]; a label of -100 marks padding, which does not
// count. Returns the mean over all tokens of all ranks that count, 0 where none does: the loss of one rank that has
// them all. Every rank of the group calls; a rank may have no token that counts.
double mean_loss(Comm& comm, const std::vector<double>& losses, const std::vector<int32_t>& labels);

}  // namespace course
