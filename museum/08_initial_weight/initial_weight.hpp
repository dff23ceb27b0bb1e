// The weight that a training starts from, of which each rank makes its own rows.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// This rank's rows of W [N,K], as torch.chunk cuts N: uniform in ±1/√K, by seed. Joined over the ranks they are the
// same numbers on any number of ranks. Nothing is sent.
Tensor initial_weight(Backend& backend, Comm& comm, int64_t N, int64_t K, uint64_t seed);

}  // namespace course
