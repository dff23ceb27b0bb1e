// NCCL's functions on the emulated GPU. Every rank sends every other what a call needs, with a card that says which call it
// is, and adds in the order of the ranks. A call is a piece of work of its stream that is done once all messages are there.
#include <nccl.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/backend/cuda/emulate/nccl_post.hpp"
#include "common/bf16.hpp"
#include "common/check.hpp"

using course::BFloat16;
using course::cat;
using course::emulate::Card;
using course::emulate::Gpu;
using course::emulate::Message;
using course::emulate::my_world_rank;
using course::emulate::Said;
using course::emulate::show;
using course::emulate::take;

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

namespace {

using Shared = std::shared_ptr<ncclComm>;

std::map<ncclComm_t, Shared>& all_comms() {  // those that are over too: their handles stay known
  static std::map<ncclComm_t, Shared> all;
  return all;
}
std::string last_error;
int next_context = 0, group_depth = 0;

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

// A blocking communicator waits here, one that does not block says that it is under way.
ncclResult_t begun(ncclComm& comm) {
  while (comm.blocking && comm.state == ncclInProgress) {
    advance(comm);
    sched_yield();
  }
  return comm.state;
}

bool blocks(const ncclConfig_t* config) { return !config || config->blocking != 0; }

// ---- beginnings ----
struct Identity {
  int maker, serial;
};
struct Member {
  int rank, size, world, context;
  char gpu[16], host[64];
};

Member myself(int rank, int size) {
  Member me = {rank, size, my_world_rank(), next_context, {}, {}};
  cudaDeviceGetPCIBusId(me.gpu, sizeof me.gpu, Gpu::get().device);
  const char* host = std::getenv("NCCL_HOSTID");
  std::strncpy(me.host, host ? host : "this host", sizeof me.host - 1);
  return me;
}

// All members are known.
void meet(ncclComm& comm, std::vector<Member> members) {
  std::ranges::sort(members, {}, &Member::rank);
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].rank != static_cast<int>(i) || members[i].size != static_cast<int>(members.size()))
      return breaks(comm, ncclInvalidArgument, "the ranks of the communicator are not 0, 1, 2, ...");
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(members[i].gpu, members[j].gpu) == 0 && std::strcmp(members[i].host, members[j].host) == 0)
        return breaks(comm, ncclInvalidUsage,
                      cat("duplicate GPU: ranks ", j, " and ", i, " are both on CUDA device ", members[i].gpu));
  }
  for (const Member& member : members) {
    comm.world.push_back(member.world);
    comm.context = std::max(comm.context, member.context);
  }
  next_context = comm.context + 1;
}

// The one who made the identity collects the members and tells all of them.
std::function<bool()> meeting(ncclComm& comm, Identity id, Member me) {
  const int to_maker = 10 + 2 * id.serial, from_maker = to_maker + 1;
  const char* bytes = reinterpret_cast<const char*>(&me);
  if (me.world != id.maker) {
    course::emulate::send(id.maker, to_maker, {Said::Hello}, bytes, sizeof me);
    return [&comm, id, from_maker] {
      const auto message = take(id.maker, from_maker);
      if (!message) return false;
      std::vector<Member> members(message->bytes.size() / sizeof(Member));
      std::memcpy(members.data(), message->bytes.data(), message->bytes.size());
      meet(comm, members);
      return true;
    };
  }
  return [&comm, to_maker, from_maker, members = std::vector{me}]() mutable {
    while (static_cast<int>(members.size()) < members[0].size) {
      const auto message = take(-1, to_maker);
      if (!message) return false;
      members.emplace_back();
      std::memcpy(&members.back(), message->bytes.data(), sizeof(Member));
    }
    for (size_t i = 1; i < members.size(); ++i)
      course::emulate::send(members[i].world, from_maker, {Said::Hello}, reinterpret_cast<const char*>(members.data()),
                            members.size() * sizeof(Member));
    meet(comm, members);
    return true;
  };
}

Shared new_comm(int rank, bool blocking) {
  auto comm = std::make_shared<ncclComm>();
  comm->rank = rank;
  comm->blocking = blocking;
  all_comms()[comm.get()] = comm;
  return comm;
}

// Every rank tells every other something, once. True when all have; then `told` holds it by rank.
struct Exchange {
  Card card;
  std::vector<char> mine;
  bool sent = false;
  std::map<int, std::vector<char>> told = {};

  bool done(ncclComm& comm) {
    for (int r = 0; !sent && r < comm.size(); ++r)
      if (r != comm.rank) course::emulate::send(comm.world[r], comm.setup_tag(), card, mine.data(), mine.size());
    sent = true;
    told[comm.rank] = mine;
    for (int r = 0; r < comm.size(); ++r) {
      if (told.contains(r)) continue;
      const auto message = take(comm.world[r], comm.setup_tag());
      if (!message) return false;
      if (message->card.what != card.what) {
        breaks(comm, message->card.what == Said::Gone ? ncclRemoteError : ncclInvalidUsage,
               cat("rank ", r, " calls ", show(message->card), ", rank ", comm.rank, " ", show(card)));
        return true;
      }
      told[r] = message->bytes;
    }
    return true;
  }
};

// ---- calls ----
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

// The calls of one communicator in a group: a piece of work of a stream.
class GroupCall {
 public:
  GroupCall(Shared comm, std::vector<Call> calls, course::emulate::Pieces pieces)
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
    course::emulate::send(comm_->world[r], comm_->calls_tag(), call.card, from, size);
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
      if (call.card.what == Said::Recv) course::emulate::send(comm_->world[r], comm_->answers_tag(), call.card);
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
           cat("call ", comm_->calls, ": rank ", r, " calls ", show(theirs), ", rank ", comm_->rank, " ", show(call.card),
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
  course::emulate::Pieces pieces_;
  bool sent_ = false;
};

// Gives the calls of one communicator to their stream.
ncclResult_t launch(const Shared& comm, const std::vector<Call>& calls) {
  std::vector<course::emulate::Touch> touches;
  for (const Call& call : calls) {
    if (call.send && call.send_bytes > 0) touches.push_back({call.send, false});
    if (call.receive && call.receive_bytes > 0) touches.push_back({call.receive, true});
  }
  std::string what = show(calls[0].card);
  what = what.substr(0, what.find(' '));
  course::emulate::Pieces pieces;
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

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  const Identity identity = {my_world_rank(), made++};
  *id = {};
  std::memcpy(id->internal, &identity, sizeof identity);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (rank < 0 || rank >= ranks) return failed(ncclInvalidArgument, cat("rank ", rank, " of ", ranks));
  Identity identity;
  std::memcpy(&identity, id.internal, sizeof identity);
  const Shared comm = new_comm(rank, blocks(config));
  *handle = comm.get();
  comm->under_way = meeting(*comm, identity, myself(rank, ranks));
  return begun(*comm);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (const ncclResult_t result = ready(handle, "ncclCommSplit"); result != ncclSuccess) return result;
  struct Place {
    int color, key, context;
  };
  const Place mine = {color, key, next_context};
  const char* bytes = reinterpret_cast<const char*>(&mine);
  *part = nullptr;
  handle->state = ncclInProgress;
  const bool blocking = config ? blocks(config) : handle->blocking;
  handle->under_way = [handle, color, part, blocking,
                       exchange = Exchange{{Said::Split}, {bytes, bytes + sizeof mine}}]() mutable {
    if (!exchange.done(*handle)) return false;
    if (handle->state != ncclInProgress) return true;
    std::vector<std::pair<int, int>> members;  // key, rank
    int context = 0;
    for (const auto& [r, told] : exchange.told) {
      Place place;
      std::memcpy(&place, told.data(), sizeof place);
      context = std::max(context, place.context);
      if (place.color == color) members.emplace_back(place.key, r);
    }
    next_context = context + 1;
    if (color == NCCL_SPLIT_NOCOLOR) return true;
    std::ranges::sort(members);
    const Shared comm = new_comm(0, blocking);
    comm->context = context;
    comm->state = ncclSuccess;
    for (const auto& [its_key, r] : members) {
      if (r == handle->rank) comm->rank = comm->size();
      comm->world.push_back(handle->world[r]);
    }
    *part = comm.get();
    return true;
  };
  return begun(*handle);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  if (const ncclResult_t result = usable(handle, "ncclCommGetAsyncError"); result != ncclSuccess) return result;
  advance(*handle);
  *state = handle->state;
  if (!handle->why.empty()) last_error = handle->why;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (const ncclResult_t result = ready(handle, "ncclCommFinalize"); result != ncclSuccess) return result;
  handle->final = true;
  handle->state = ncclInProgress;
  handle->under_way = [handle, exchange = Exchange{{Said::End}, {}}]() mutable {
    return handle->open == 0 && exchange.done(*handle);
  };
  return begun(*handle);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (const ncclResult_t result = usable(handle, "ncclCommAbort"); result != ncclSuccess) return result;
  const bool in_order = handle->final && handle->state == ncclSuccess;
  for (int r = 0; r < handle->size() && !in_order; ++r)
    for (const int tag : {handle->calls_tag(), handle->answers_tag(), handle->setup_tag()})
      if (r != handle->rank) course::emulate::send(handle->world[r], tag, {Said::Gone});
  handle->over = true;
  handle->under_way = nullptr;
  handle->launch = nullptr;
  Gpu::get().advance();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) { return ncclCommAbort(handle); }  // the same, for one that is finalized

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return failed(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  return --group_depth > 0 || group().empty() ? ncclSuccess : launch_group();
}

namespace {

Call call_of(Said what, ncclDataType_t type, int64_t count, ncclComm_t comm, cudaStream_t stream) {
  return {{what, type, -1, -1, count, 0}, comm, stream};
}
int ranks_of(ncclComm_t comm) { return all_comms().contains(comm) ? comm->size() : 1; }
bool is_rank(ncclComm_t comm, int rank) { return all_comms().contains(comm) && comm->rank == rank; }

}  // namespace

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
