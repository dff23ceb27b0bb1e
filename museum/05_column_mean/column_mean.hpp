// The mean of each column of a matrix whose rows are cut over the ranks.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// X [N,D]; x [n_r,D] are this rank's rows, as torch.chunk cuts them, perhaps none. Returns [D], the same on every rank.
// N > 0 need not divide by the ranks. Every rank of the group calls.
Tensor column_mean(Backend& backend, Comm& comm, const Tensor& x);

}  // namespace course
