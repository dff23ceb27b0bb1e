// An all-reduce by hand: a ring of sends and receives.
//
// The ranks stand in a circle; each sends to its right neighbour and receives from its left. x is cut in P pieces
// (torch.chunk).
//   phase 1, reduce-scatter: P-1 steps; the piece that arrives is added to one's own and sent on in the next step.
//                            Rank r then holds the finished piece r+1 (mod P).
//   phase 2, all-gather:     P-1 steps; finished pieces travel on round the circle, nothing is added.
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// x [any], f32, becomes the sum over the ranks of the group, the same bits on all of them. Every rank of the group
// calls, with the same shape. 2(P-1) sends a rank; a group of one returns at once.
void ring_all_reduce(Backend& backend, Comm& comm, Tensor& x);

// Sends mine to rank `to` while `theirs` arrives from rank `from`. The receive is started before the send and both are
// waited for, so that it does not matter who comes first, nor how large the messages are.
void exchange(Comm& comm, const Tensor& mine, int to, Tensor& theirs, int from);

// The bytes that rank r of P really sends for n elements of 4 bytes: in each phase all pieces but one. Their mean over
// the ranks is 2(P-1)/P·4n; where P divides n, every rank sends just that.
int64_t ring_all_reduce_bytes(int64_t n, int ranks, int rank);

}  // namespace course
