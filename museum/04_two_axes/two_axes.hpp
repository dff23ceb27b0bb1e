// The two sums of a step on a 2-D mesh of ranks: gradients over dp, activations over tp.
#pragma once

#include "common/comm/comm.hpp"

namespace course {

// gradient becomes its sum over the ranks of dp, activation its sum over the ranks of tp. A rank is in one group of
// each axis. The two sums may overlap; both are complete on return. Every rank of the mesh calls.
void add_on_both(Comm& dp, Comm& tp, Tensor& gradient, Tensor& activation);

}  // namespace course
