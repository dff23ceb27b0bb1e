// An all-reduce by hand: recursive doubling.
//
// In step s each rank swaps all it has with the rank whose number differs in bit s, and adds: after 1 step pairs have
// the same sum, after 2 fours, after log2 P all. Few messages, each of the whole size: the way for small tensors.
//
// P that is no power of two: let Q be the largest power of two below, E = P - Q. Of the first 2E ranks the even ones
// hand theirs to the next odd one and step aside; the Q that stay double; at the end the odd ones hand the sum back.
// Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1), 2005,
// section 4.5.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// x [any], f32, becomes the sum over the ranks of the group, the same bits on all of them. Every rank of the group
// calls, with the same shape. A group of one returns at once.
void recursive_doubling_all_reduce(Backend& backend, Comm& comm, Tensor& x);

// How many times rank r of P sends all of x.
int recursive_doubling_sends(int ranks, int rank);

}  // namespace course
