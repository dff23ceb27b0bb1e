// NCCL's calls of this rank, of all groups: their stream, which of them are under way, and what goes wrong with them.
#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/event.hpp"
#include "common/comm/comm.hpp"
#include "common/comm/patience.hpp"

namespace course {

ncclDataType_t nccl_type(DType type);
inline bool went_well(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

class NcclCalls {
 public:
  // What an error names: "all-reduce", "tp (rank 1 of 4)".
  struct Title {
    std::string what, group;
    Site at;
  };
  // A group call that the stream was given.
  struct Started {
    Started(Title name, cudaStream_t stream) : title(std::move(name)), ready(stream) {}
    Title title;
    cuda::Event ready;                // all that it waits for is there
    std::optional<cuda::Event> done;  // and it is over
    Patience patience;
  };
  // Sends and receives that go together.
  struct Messages {
    Title title;  // of the first
    std::vector<std::pair<ncclComm_t, Call>> calls;
    std::shared_ptr<Started> started = nullptr;
  };

  // `backend` outlives this, and looks in here while it waits for the device.
  NcclCalls(CudaBackend& backend, std::shared_ptr<const double> timeout);
  ~NcclCalls();
  NcclCalls(const NcclCalls&) = delete;

  cudaStream_t stream() const { return stream_; }
  CudaBackend& backend() { return backend_; }

  // Communicators. All throw, and end by themselves, as the calls below. destroy() waits for the other ranks; while an
  // exception unwinds it aborts.
  ncclComm_t connect(const ncclUniqueId& id, int rank, int size, const Title& title);
  ncclComm_t split(ncclComm_t from, int color, int key, const Title& title);  // null for NCCL_SPLIT_NOCOLOR
  void destroy(ncclComm_t comm, const Title& title) noexcept;

  // Gives the stream what `put` calls, as one group call of these communicators, behind all that compute has so far.
  std::shared_ptr<Started> start(const Title& title, const std::vector<ncclComm_t>& comms,
                                 const std::function<ncclResult_t()>& put);
  bool reached(const Started& started, Until until);

  // Adds a message to those that go together; the call is copied. send_messages() starts them, unless there are none; so does
  // who asks for one of them.
  std::shared_ptr<Messages> add(ncclComm_t comm, const Call& message, const Title& title);
  void send_messages();
  bool reached(const Messages& messages, Until until);

  // Throws where NCCL has found an error, or the oldest call that could go on has waited longer than the time limit. Looks once
  // a millisecond, however often it is called.
  void look();

  // For the result of an NCCL call: gives up unless it is a success, or under way.
  void check(ncclResult_t result, const Title& title);

 private:
  void settle(ncclComm_t comm, const Title& title, const char* hint = "");  // until it is no longer under way
  [[noreturn]] void give_up(const std::string& why, Site at);               // aborts all communicators
  [[noreturn]] void give_up(ncclResult_t result, const Title& title, const char* hint = "");
  [[noreturn]] void out_of_time(const Title& title);

  CudaBackend& backend_;
  std::shared_ptr<const double> timeout_;
  cuda::Stream stream_;
  std::function<void()> look_before_;  // whoever looked in before
  std::vector<ncclComm_t> comms_;      // alive, in the order in which they were made
  std::deque<std::shared_ptr<Started>> pending_;
  std::shared_ptr<Messages> messages_;  // not started; null: none
  std::string dead_;                    // why all was given up
  double looked_ = 0;                   // when, in seconds
};

}  // namespace course
