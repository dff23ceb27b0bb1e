// A step of gradient descent on parameters that are cut over the ranks, however small they are.
#pragma once

#include <vector>

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// weights[i] [n_i] are whole and equal on every rank; gradients[i] [n_i] are those of this rank's samples. For each
// parameter in turn: the gradients are added over the ranks and each rank keeps its piece of the sum (torch.chunk,
// perhaps empty), moves its piece of the weight by -lr times that, and the pieces are joined. Returns the new weights,
// equal on every rank. Every rank of the group calls. One reduce-scatter and one all-gather a parameter.
std::vector<Tensor> descend(Backend& backend, Comm& comm, const std::vector<Tensor>& weights,
                            const std::vector<Tensor>& gradients, float lr);

}  // namespace course
