// Training that saves what it has so far: the weight lies in pieces, one a rank, the file holds the whole.
#pragma once

#include <ostream>

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// weight [n_r] goes to target [n_r] in `steps` steps, each half of the way that is left. They are this rank's pieces of
// n numbers, by torch.chunk, and may be empty. After every second step rank 0 writes the whole weight into `file`, one
// line; the other ranks write nothing. Returns the squares of the way that is left, over all ranks. Every rank of the
// group calls.
double train(Backend& backend, Comm& comm, Tensor& weight, const Tensor& target, int64_t n, int64_t steps,
             std::ostream& file);

}  // namespace course
