// The emulated NCCL's communicators: what they are, and how far they have come. nccl_start.cpp makes and ends them,
// nccl_group.cpp carries out what is called on them.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct ncclComm {
  std::vector<int> world;  // MPI's ranks
  int rank = 0, context = 0;
  bool blocking = true, over = false;  // over: destroyed or aborted
  bool final = false;
  int64_t calls = 0;
  int open = 0;  // group calls that are not done
  ncclResult_t state = ncclInProgress;
  std::string why;
  std::function<bool()> under_way;       // a beginning, a split or an end: true once it is done
  std::function<ncclResult_t()> launch;  // what the stream gets when somebody asks for the state

  int size() const { return static_cast<int>(world.size()); }
  int calls_tag() const { return 10000 + 3 * context; }
  int answers_tag() const { return calls_tag() + 1; }
  int setup_tag() const { return calls_tag() + 2; }
};

namespace course::emulate {

using Shared = std::shared_ptr<ncclComm>;

std::map<ncclComm_t, Shared>& all_comms();  // those that are over too: their handles stay known
Shared new_comm(int rank, bool blocking);

// Keeps why for ncclGetLastError.
ncclResult_t failed(ncclResult_t result, std::string why);
// The same, and the communicator is of no use from now on. The first fault counts.
void breaks(ncclComm& comm, ncclResult_t result, const std::string& why);

// Whether `call` may ask for it at all; whether it may start something on it.
ncclResult_t usable(ncclComm_t handle, const char* call);
ncclResult_t ready(ncclComm_t handle, const char* call);

// What was put under way has begun: a blocking communicator waits here, one that does not block says that it is under way.
ncclResult_t begun(ncclComm& comm);

}  // namespace course::emulate
