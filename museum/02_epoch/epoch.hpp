// One pass over a text on all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

struct Epoch {
  int64_t steps;
  double loss;  // the mean over the tokens that were read
};

// In step s, from 0, rank r of P reads `batch` tokens, from token (s·P + r)·batch on, and the one after them: each
// token's label is the token that follows. A token's loss is the squared difference from its label. After each step the
// losses are added over the ranks. There are as many steps as all ranks can take; what is left of the text is not read.
// Every rank calls, with the same tokens. Every rank returns the same; no step: loss 0.
Epoch read_epoch(Comm& comm, const std::vector<int32_t>& tokens, int64_t batch);

}  // namespace course
