// A table of vectors whose rows are cut over the ranks: the Embedding of a vocabulary.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// table [v_r,D] are this rank's rows of a table [V,D], as torch.chunk cuts them; ids [N] are the same on every rank.
// Returns the rows of the ids [N,D], the same on every rank. An id outside 0..V-1 is a SharedError on every rank, on
// any number of ranks. Every rank of the group calls. One all-reduce.
Tensor look_up(Backend& backend, Comm& comm, const Tensor& table, int64_t V, const Tensor& ids);

}  // namespace course
