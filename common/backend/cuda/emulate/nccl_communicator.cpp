#include "common/backend/cuda/emulate/nccl_communicator.hpp"

#include <sched.h>

#include <utility>

#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/check.hpp"

namespace course::emulate {
namespace {

std::string last_error;

void advance(ncclComm& comm) {
  if (comm.launch) {
    const auto launch = std::exchange(comm.launch, nullptr);
    const ncclResult_t result = launch();
    if (result != ncclSuccess) breaks(comm, result, last_error);
    if (comm.state == ncclInProgress && !comm.under_way) comm.state = ncclSuccess;
  }
  if (comm.under_way && comm.under_way()) {
    comm.under_way = nullptr;
    if (comm.state == ncclInProgress) comm.state = ncclSuccess;
  }
  Gpu::get().advance();
}

}  // namespace

std::map<ncclComm_t, Shared>& all_comms() {
  static std::map<ncclComm_t, Shared> all;
  return all;
}

Shared new_comm(int rank, bool blocking) {
  auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  comm->blocking = blocking;
  all_comms()[comm.get()] = comm;
  return comm;
}

ncclResult_t failed(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}
void breaks(ncclComm& comm, ncclResult_t result, const std::string& why) {
  if (comm.state != ncclInProgress && comm.state != ncclSuccess) return;
  comm.state = failed(result, why);
  comm.why = why;
}

ncclResult_t usable(ncclComm_t handle, const char* call) {
  const auto found = all_comms().find(handle);
  if (found == all_comms().end()) return failed(ncclInvalidArgument, cat(call, ": this is no communicator"));
  if (found->second->over) return failed(ncclInvalidArgument, cat(call, ": the communicator was destroyed or aborted"));
  return ncclSuccess;
}

ncclResult_t ready(ncclComm_t handle, const char* call) {
  if (const ncclResult_t result = usable(handle, call); result != ncclSuccess) return result;
  if (handle->state == ncclInProgress)
    return failed(ncclInvalidArgument,
                  cat(call, ": the communicator is used before its last operation is done; ncclCommGetAsyncError tells"));
  if (handle->final) return failed(ncclInvalidUsage, cat(call, ": the communicator was finalized"));
  return handle->state == ncclSuccess ? ncclSuccess : failed(handle->state, handle->why);
}

ncclResult_t begun(ncclComm& comm) {
  while (comm.blocking && comm.state == ncclInProgress) {
    advance(comm);
    sched_yield();
  }
  return comm.state;
}

}  // namespace course::emulate

using namespace course::emulate;

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  if (const ncclResult_t result = usable(handle, "ncclCommGetAsyncError"); result != ncclSuccess) return result;
  advance(*handle);
  *state = handle->state;
  if (!handle->why.empty()) last_error = handle->why;
  return ncclSuccess;
}
