// NCCL's functions on the emulated GPU. Every rank sends every other what a call needs, with a card that says which call it
// is, and adds in the order of the ranks. The calls of a group on one communicator are a piece of work of its stream, which is
// done once all messages are there.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/backend/cuda/emulate/nccl_communicator.hpp"
#include "common/backend/cuda/emulate/nccl_post.hpp"
#include "common/bf16.hpp"
#include "common/check.hpp"

using namespace course::emulate;
using course::BFloat16;
using course::cat;

namespace {

int group_depth = 0;

struct Call {
  Card card;
  ncclComm_t comm;
  cudaStream_t stream;
  const void* send = nullptr;  // null: this rank brings nothing
  void* receive = nullptr;     // null: and gets nothing
  int64_t send_bytes = 0, receive_bytes = 0;
  int peer = -1;
  std::vector<char> mine = {};
  std::map<int, std::vector<char>> theirs = {};

  bool is_message() const { return card.what == Said::Send || card.what == Said::Recv; }
};

std::vector<Call>& group() {
  static std::vector<Call> calls;
  return calls;
}

int64_t size_of(int type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

// What stands in one piece of device memory, or why not.
std::string not_device_memory(const void* at, int64_t bytes) {
  auto& arena = Gpu::get().arena;
  if (bytes == 0) return "";
  if (!arena.holds(at)) return cat(bytes, " bytes lie in the host's memory");
  const auto* piece = arena.find(at);
  if (!piece || piece->freed || static_cast<const char*>(at) + bytes > piece->begin + piece->bytes)
    return cat(bytes, " bytes begin ", arena.describe(at));
  return "";
}

template <typename T>
void reduce_as(int reduce, std::vector<char>& sum, const std::vector<char>& more) {
  const size_t n = sum.size() / sizeof(T);
  T *a = reinterpret_cast<T*>(sum.data());
  const T* b = reinterpret_cast<const T*>(more.data());
  for (size_t i = 0; i < n; ++i) a[i] = reduce == ncclSum ? static_cast<T>(a[i] + b[i]) : std::max(a[i], b[i]);
}

void reduce_into(const Card& card, std::vector<char>& sum, const std::vector<char>& more) {
  switch (card.type) {
    case ncclUint8: return reduce_as<uint8_t>(card.reduce, sum, more);
    case ncclInt32: return reduce_as<int32_t>(card.reduce, sum, more);
    case ncclInt64: return reduce_as<int64_t>(card.reduce, sum, more);
    case ncclFloat32: return reduce_as<float>(card.reduce, sum, more);
    case ncclFloat64: return reduce_as<double>(card.reduce, sum, more);
    case ncclBfloat16: return reduce_as<BFloat16>(card.reduce, sum, more);
  }
}

// The calls of one communicator in a group.
class GroupCall {
 public:
  GroupCall(Shared comm, std::vector<Call> calls, Pieces pieces)
      : comm_(std::move(comm)), calls_(std::move(calls)), pieces_(std::move(pieces)) {}

  bool done() {
    if (comm_->over || Gpu::get().state() != cudaSuccess) return true;
    if (comm_->state != ncclSuccess && comm_->state != ncclInProgress) return false;  // stuck, until it is aborted
    if (!sent_) send_all();
    // A peer's messages belong to the calls in their order.
    std::set<int> held, answers_held;
    bool all = true;
    for (Call& call : calls_) all = came(call, call.card.what == Said::Send ? answers_held : held) && all;
    if (!all || (comm_->state != ncclSuccess && comm_->state != ncclInProgress)) return false;
    auto write = [&] {
      for (Call& call : calls_) finish(call);
      return true;
    };
    Gpu::get().with_open(pieces_, write);
    --comm_->open;
    return true;
  }

 private:
  void send_all() {
    sent_ = true;
    auto read = [&] {
      for (Call& call : calls_) {
        const auto begin = static_cast<const char*>(call.send);
        if (begin) call.mine.assign(begin, begin + call.send_bytes);
      }
      return true;
    };
    Gpu::get().with_open(pieces_, read);
    for (Call& call : calls_) {
      if (!call.is_message()) call.card.number = ++comm_->calls;
      for (int r = 0; r < comm_->size(); ++r) send_to(call, r);
    }
  }

  void send_to(const Call& call, int r) {
    const char* from = call.mine.data();
    size_t size = call.mine.size();
    switch (call.card.what) {
      case Said::Recv: return;
      case Said::Send:
        if (r != call.peer) return;
        break;
      case Said::ReduceScatter:
        size /= comm_->size();
        from += r * size;
        break;
      case Said::Reduce:
        if (r != call.card.root) size = 0;
        break;
      default: break;
    }
    if (r == comm_->rank && call.card.what != Said::Send) return;
    send(comm_->world[r], comm_->calls_tag(), call.card, from, size);
  }

  // Whether all that the call waits for has come; takes what has. Peers in `held` have messages for a call before this.
  bool came(Call& call, std::set<int>& held) {
    bool all = true;
    for (int r = 0; r < comm_->size(); ++r) {
      const bool awaited = call.is_message() ? r == call.peer : r != comm_->rank;
      if (!awaited || call.theirs.contains(r)) continue;
      const int tag = call.card.what == Said::Send ? comm_->answers_tag() : comm_->calls_tag();
      const auto message = held.contains(r) ? std::nullopt : take(comm_->world[r], tag);
      if (!message) {
        held.insert(r);
        all = false;
        continue;
      }
      compare(call, r, message->card);
      call.theirs[r] = message->bytes;
      if (call.card.what == Said::Recv) send(comm_->world[r], comm_->answers_tag(), call.card);
    }
    return all;
  }

  void compare(const Call& call, int r, Card theirs) {
    if (theirs.what == Said::Gone)
      return breaks(*comm_, ncclRemoteError,
                    cat("rank ", r, " has left the communicator, rank ", comm_->rank, " calls ", show(call.card)));
    Card expected = call.card;
    if (call.is_message()) expected.what = call.card.what == Said::Send ? Said::Recv : Said::Send;
    if (theirs == expected) return;
    breaks(*comm_, ncclInvalidUsage,
           cat(call.is_message() ? "" : cat("call ", call.card.number, ": "), "rank ", r, " calls ", show(theirs), ", rank ", comm_->rank, " ", show(call.card),
               " (NCCL itself does not say so: it waits for ever, or gives other numbers)"));
  }

  // With the memory open.
  void finish(Call& call) {
    if (!call.receive) return;
    std::vector<char> result;
    const int P = comm_->size(), rank = comm_->rank;
    switch (call.card.what) {
      case Said::Recv: result = call.theirs.at(call.peer); break;
      case Said::Broadcast: result = rank == call.card.root ? call.mine : call.theirs.at(call.card.root); break;
      case Said::AllGather:
        for (int r = 0; r < P; ++r) {
          const auto& part = r == rank ? call.mine : call.theirs.at(r);
          result.insert(result.end(), part.begin(), part.end());
        }
        break;
      default:  // sums and maxima, in the order of the ranks
        if (call.card.what == Said::ReduceScatter)
          call.mine = {call.mine.begin() + rank * call.receive_bytes, call.mine.begin() + (rank + 1) * call.receive_bytes};
        for (int r = 0; r < P; ++r) {
          const auto& part = r == rank ? call.mine : call.theirs.at(r);
          if (r == 0)
            result = part;
          else
            reduce_into(call.card, result, part);
        }
    }
    std::memcpy(call.receive, result.data(), result.size());
  }

  Shared comm_;
  std::vector<Call> calls_;
  Pieces pieces_;
  bool sent_ = false;
};

// Gives the calls of one communicator to their stream.
ncclResult_t launch(const Shared& comm, const std::vector<Call>& calls) {
  std::vector<Touch> touches;
  for (const Call& call : calls) {
    if (call.send && call.send_bytes > 0) touches.push_back({call.send, false});
    if (call.receive && call.receive_bytes > 0) touches.push_back({call.receive, true});
  }
  std::string what = show(calls[0].card);
  what = what.substr(0, what.find(' '));
  Pieces pieces;
  cudaError_t code = Gpu::get().order(calls[0].stream, what, touches, pieces);
  if (code == cudaSuccess) {
    ++comm->open;
    const auto call = std::make_shared<GroupCall>(comm, calls, pieces);
    code = Gpu::get().later(calls[0].stream, [call] { return call->done(); });
  }
  return code == cudaSuccess ? ncclSuccess : failed(ncclUnhandledCudaError, cudaGetErrorString(code));
}

ncclResult_t launch_group() {
  const auto calls = std::exchange(group(), {});
  std::vector<ncclComm_t> order;
  std::map<ncclComm_t, std::vector<Call>> by_comm;
  for (const Call& call : calls) {
    if (!by_comm.contains(call.comm)) order.push_back(call.comm);
    by_comm[call.comm].push_back(call);
  }
  ncclResult_t result = ncclSuccess;
  for (const ncclComm_t handle : order) {
    const Shared comm = all_comms().at(handle);
    comm->state = ncclInProgress;
    comm->launch = [comm, mine = by_comm[handle]] { return launch(comm, mine); };
    if (const ncclResult_t one = begun(*comm); one != ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t add(Call call) {
  const std::string name = show(call.card);
  if (const ncclResult_t result = ready(call.comm, name.c_str()); result != ncclSuccess) return result;
  const void* receive = call.receive;
  for (const auto& [at, bytes, which] : {std::tuple{call.send, call.send_bytes, "what is sent"},
                                         std::tuple{receive, call.receive_bytes, "what is received"}}) {
    const std::string wrong = at || bytes > 0 ? not_device_memory(at, at ? bytes : 0) : "";
    if (!wrong.empty()) return failed(ncclInvalidArgument, cat(name, ": ", which, ": ", wrong));
  }
  for (const int r : {call.card.root, call.peer})
    if (r >= call.comm->size()) return failed(ncclInvalidArgument, cat(name, ": no rank ", r));
  group().push_back(std::move(call));
  return group_depth > 0 ? ncclSuccess : launch_group();
}

Call call_of(Said what, ncclDataType_t type, int64_t count, ncclComm_t comm, cudaStream_t stream) {
  return {{what, type, -1, -1, count, 0}, comm, stream};
}
int ranks_of(ncclComm_t comm) { return all_comms().contains(comm) ? comm->size() : 1; }
bool is_rank(ncclComm_t comm, int rank) { return all_comms().contains(comm) && comm->rank == rank; }

}  // namespace

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group_depth > 0 || group().empty() ? ncclSuccess : launch_group();
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  Call call = call_of(Said::Broadcast, type, count, comm, stream);
  call.card.root = root;
  call.send = is_rank(comm, root) ? send : nullptr;
  call.receive = receive;
  call.send_bytes = is_rank(comm, root) ? count * size_of(type) : 0;
  call.receive_bytes = count * size_of(type);
  return add(call);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t reduce, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  Call call = call_of(Said::Reduce, type, count, comm, stream);
  call.card.root = root;
  call.card.reduce = reduce;
  call.send = send;
  call.receive = is_rank(comm, root) ? receive : nullptr;
  call.send_bytes = count * size_of(type);
  call.receive_bytes = is_rank(comm, root) ? call.send_bytes : 0;
  return add(call);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t reduce,
                           ncclComm_t comm, cudaStream_t stream) {
  Call call = call_of(Said::AllReduce, type, count, comm, stream);
  call.card.reduce = reduce;
  call.send = send;
  call.receive = receive;
  call.send_bytes = call.receive_bytes = count * size_of(type);
  return add(call);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  Call call = call_of(Said::AllGather, type, send_count, comm, stream);
  call.send = send;
  call.receive = receive;
  call.send_bytes = send_count * size_of(type);
  call.receive_bytes = call.send_bytes * ranks_of(comm);
  return add(call);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count, ncclDataType_t type,
                               ncclRedOp_t reduce, ncclComm_t comm, cudaStream_t stream) {
  Call call = call_of(Said::ReduceScatter, type, receive_count, comm, stream);
  call.card.reduce = reduce;
  call.send = send;
  call.receive = receive;
  call.receive_bytes = receive_count * size_of(type);
  call.send_bytes = call.receive_bytes * ranks_of(comm);
  return add(call);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  Call call = call_of(Said::Send, type, count, comm, stream);
  call.send = send;
  call.send_bytes = count * size_of(type);
  call.peer = peer;
  return add(call);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  Call call = call_of(Said::Recv, type, count, comm, stream);
  call.receive = receive;
  call.receive_bytes = count * size_of(type);
  call.peer = peer;
  return add(call);
}
