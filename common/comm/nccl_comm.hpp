// Comm over NCCL, for what lies in a GPU's memory. What lies in the host's (losses, norms, texts, barriers) goes to the Comm
// inside, which is MPI's. The NCCL User Guide 2.28: "Using NCCL", "Communicator Creation and Management".
//
//   compute stream         kernel ──┬── kernel ── kernel ──┬── kernel that reads the sum
//                                   │                      │
//   communication stream            └───── all-reduce ─────┘
//
// A call goes on a stream of its own. It waits for what compute was given before it, and nothing in compute waits for it
// until Work::wait(), which makes compute's stream wait and not the host. Work::test() asks whether it is over. Memory goes
// back in the order of the compute stream (DeviceMemory), so after the wait it may go.
//
// NCCL knows no tags and no order but the one of its stream: every rank must make the same calls in the same order, over
// all groups. Messages (send, recv) therefore go together: those that are started one after another form one group call,
// which begins when one of them is waited for or tested, or any other call starts.
//
// Uneven all-gathers and reduce-scatters are one broadcast or reduction for each rank, in one group call.
//
// The ranks of a communicator are connected when it is made (NCCL_RUNTIME_CONNECT=0, unless a person has set it). Left to
// itself NCCL does so at the first collective of a kind, and the host stays in start() until all ranks have come. It still does
// at the first message between two ranks.
//
// Whoever waits on the host, for the device or for MPI, looks after NCCL meanwhile: an error, or a call that has waited longer
// than the time limit for another rank, aborts this rank's communicators and throws.
#pragma once

#include <memory>

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// Whether this build has it.
bool has_nccl();

// Over the ranks of `host`, which outlives the Comm, as does `backend`, a GPU's. Collective, as is the end of the Comm; its parts
// may end after it. A wait of more than `timeout` seconds (0: no limit) for another rank throws. Throws Error with NCCL's words
// and the likely cause where it does not start: two ranks on one GPU, no way between the ranks.
std::unique_ptr<Comm> make_nccl_comm(Comm& host, Backend& backend, std::shared_ptr<const double> timeout);

// NCCL refuses two ranks of one host on one GPU, unless NCCL_MULTI_RANK_GPU_ENABLE=1 allows it, from 2.30 on. An older one is told
// that each rank is a host of its own: that is not documented. They talk through sockets, over the loopback where all ranks are
// on one node. Neither was seen on hardware so far. Before the first NCCL call; what a person has set stays.
void let_ranks_share_a_gpu(int rank, bool one_node);

}  // namespace course
