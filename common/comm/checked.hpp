// A Comm that makes sure that the ranks of a group mean the same call before it starts: --check-collectives, and every
// test.
//
//   call 3 on tp: ranks disagree about the operation: rank 0 all-reduce of 12 f32 (mlp.cpp:40), rank 1 all-gather of 4
//   f32 (linear.cpp:22)
//
// How. On a communicator of its own each rank sends every other a card: number of the call on this group, operation,
// elements, type, counts, reduction, root, axis and source line. When all cards of a call are there, each rank compares
// them, comes to the same verdict, and starts the call or throws Error. That is 2(P-1) small messages a rank and call;
// groups here are small.
//
// What must agree: operation, type, elements, reduction, root, the counts of every rank; in an all-to-all what r sends
// to s and what s expects of r. All-reduce, all-gather, reduce-scatter and all-to-all must come from one source line
// too: two sums of one size in another order differ in nothing else. A broadcast's root and its receivers may stand on
// different lines, so may barriers.
//
// The check is asynchronous, as the call is: the Work that is returned first completes the exchange, then starts the
// call. The calls of one group start in the order in which they were made. Every poll moves the calls of all groups, so
// a rank that waits for tp does not hold up dp. While nobody polls a call that others are late for, it does not start.
// Groups may start their calls in different orders on different ranks: right for MPI, not for NCCL, which needs one
// order for all.
//
// Send and recv concern two ranks: the sender's card goes ahead of the message, and the receiver compares. Sends do not
// wait.
//
// A wait longer than `timeout` throws, and names the ranks that did not come; so does, after a second, a wait for a
// rank that has ended. The first to find it says a line a rank from the board. A rank that is merely slow within the
// limit is waited for.
//
// split() is checked like a call. What crosses here is not seen by a Recorder around it.
//
// Cost: see chapters/02_collectives/README.md.
#pragma once

#include <memory>

#include "common/comm/board.hpp"
#include "common/comm/comm.hpp"

namespace course {

// Around `inner`, a Comm of the ranks of `group` in their order. Collective over `group`. The board may be null.
std::unique_ptr<Comm> make_checked(std::unique_ptr<Comm> inner, MPI_Comm group, std::shared_ptr<const double> timeout,
                                   std::shared_ptr<Board> board);

}  // namespace course
