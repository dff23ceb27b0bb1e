#include "common/comm/nccl_comm.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/comm/decorator.hpp"
#include "common/comm/nccl_calls.hpp"
#include "common/last_words.hpp"

namespace course {
namespace {

bool is_message(Op op) { return op == Op::Send || op == Op::Recv; }
constexpr int keep = 0;  // for setenv: what a person has set stays
char* at(const Elements& x, int64_t offset) { return static_cast<char*>(x.data) + offset * size_of(x.type); }

// Calls `each` with a rank, where its elements begin, and how many they are, until one does not go well.
template <typename Each>
ncclResult_t for_each_rank(const Counts& counts, Each each) {
  int64_t begin = 0;
  for (int r = 0; r < static_cast<int>(counts.size()); begin += counts[r++])
    if (const ncclResult_t result = each(r, begin, counts[r]); !went_well(result)) return result;
  return ncclSuccess;
}

// A communicator. Its parts hold it, so that it goes after them.
struct Communicator {
  std::shared_ptr<NcclCalls> calls;
  std::shared_ptr<Communicator> parent;
  ncclComm_t comm;
  NcclCalls::Title end;  // of its own
  ~Communicator() { calls->destroy(comm, end); }
};

class NcclComm : public CommDecorator {
 public:
  // No communicator: a group of one.
  template <typename Host>
  NcclComm(Host&& host, std::shared_ptr<NcclCalls> calls, std::shared_ptr<Communicator> group)
      : CommDecorator(std::forward<Host>(host)), calls_(std::move(calls)), group_(std::move(group)) {}

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at) override;
  Work start(const Call& call) override;
  void look() override { calls_->look(); }

 private:
  NcclCalls::Title title_of(const std::string& what, Site at) const { return {what, title(), at}; }
  Work copied(const Call& call);
  ncclResult_t put(const Call& call);

  std::shared_ptr<NcclCalls> calls_;
  std::shared_ptr<Communicator> group_;
};

std::unique_ptr<Comm> NcclComm::split(int color, int key, const std::string& name, Site at) {
  auto part = inner().split(color, key, name, at);
  std::shared_ptr<Communicator> group;
  if (group_) {
    const auto title = title_of(cat("split into ", name), at);
    const int nccl_color = part->size() > 1 ? color : NCCL_SPLIT_NOCOLOR;
    const ncclComm_t comm = calls_->split(group_->comm, nccl_color, part->rank(), title);
    if (comm) group = std::make_shared<Communicator>(calls_, group_, comm, title_of(cat("end of ", name), at));
  }
  return std::make_unique<NcclComm>(std::move(part), calls_, std::move(group));
}

Work NcclComm::start(const Call& call) {
  if (!is_message(call.op)) calls_->send_messages();
  if (call.on_host()) {
    const auto work = std::make_shared<Work>(inner().start(call));
    return Work([calls = calls_, work](Until until) {
      calls->look();
      return work->reached(until);
    });
  }
  require(call.in.device == Device::Cuda && call.out.device == Device::Cuda, name_of(call.op), " on ", name(),
          ": one side lies on the GPU, the other on the host");
  if (size() == 1) return copied(call);
  note_collective(name_of(call.op), call.at);
  if (call.op != Op::AllToAll && call.whole().count == 0) return {};  // as on every rank
  const auto title = title_of(name_of(call.op), call.at);
  if (is_message(call.op)) {
    const auto messages = calls_->add(group_->comm, call, title);
    return Work([calls = calls_, messages](Until until) { return calls->reached(*messages, until); });
  }
  const auto started = calls_->start(title, {group_->comm}, [&] { return put(call); });
  return Work([calls = calls_, started](Until until) { return calls->reached(*started, until); });
}

Work NcclComm::copied(const Call& call) {
  if (call.in.count > 0 && call.in.data != call.out.data)
    cuda::check(cudaMemcpyAsync(call.out.data, call.in.data, call.in.count * size_of(call.in.type), cudaMemcpyDeviceToDevice,
                                calls_->backend().stream()),
                "cudaMemcpyAsync");
  return {};
}

// Within a group call. The stream gets all of it at once.
ncclResult_t NcclComm::put(const Call& call) {
  const Elements &in = call.in, &out = call.out;
  const ncclDataType_t type = nccl_type(in.type);
  const ncclRedOp_t reduce = call.reduce == Reduce::Sum ? ncclSum : ncclMax;
  const ncclComm_t comm = group_->comm;
  const cudaStream_t stream = calls_->stream();
  const bool even = std::ranges::all_of(call.counts, [&](int64_t n) { return n == call.counts[0]; });
  switch (call.op) {
    case Op::AllReduce: return ncclAllReduce(in.data, in.data, in.count, type, reduce, comm, stream);
    case Op::Broadcast: return ncclBroadcast(in.data, in.data, in.count, type, call.peer, comm, stream);
    case Op::AllGather:
      if (even) return ncclAllGather(in.data, out.data, in.count, type, comm, stream);
      return for_each_rank(call.counts, [&](int r, int64_t begin, int64_t n) {
        return n == 0 ? ncclSuccess : ncclBroadcast(in.data, at(out, begin), n, type, r, comm, stream);
      });
    case Op::ReduceScatter:
      if (even) return ncclReduceScatter(in.data, out.data, out.count, type, ncclSum, comm, stream);
      return for_each_rank(call.counts, [&](int r, int64_t begin, int64_t n) {
        return n == 0 ? ncclSuccess : ncclReduce(at(in, begin), out.data, n, type, ncclSum, r, comm, stream);
      });
    case Op::AllToAll: {
      const ncclResult_t sent = for_each_rank(call.counts, [&](int r, int64_t begin, int64_t n) {
        return n == 0 ? ncclSuccess : ncclSend(at(in, begin), n, type, r, comm, stream);
      });
      if (!went_well(sent)) return sent;
      return for_each_rank(call.receive_counts, [&](int r, int64_t begin, int64_t n) {
        return n == 0 ? ncclSuccess : ncclRecv(at(out, begin), n, type, r, comm, stream);
      });
    }
    case Op::Send:
    case Op::Recv:
    case Op::Barrier: break;
  }
  fail("no collective of a GPU's memory");
}

}  // namespace

bool has_nccl() { return true; }

std::unique_ptr<Comm> make_nccl_comm(Comm& host, Backend& backend, std::shared_ptr<const double> timeout) {
  setenv("NCCL_RUNTIME_CONNECT", "0", keep);
  const auto calls = std::make_shared<NcclCalls>(dynamic_cast<CudaBackend&>(backend), std::move(timeout));
  const NcclCalls::Title start = {"NCCL's start", host.title(), Site::current()};
  ncclUniqueId id = {};
  const ncclResult_t made = host.rank() == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  const double failed = host.max(made);
  calls->check(static_cast<ncclResult_t>(failed), start);
  host.broadcast(std::span(reinterpret_cast<uint8_t*>(id.internal), sizeof id.internal), 0).wait();
  const ncclComm_t comm = calls->connect(id, host.rank(), host.size(), start);
  auto communicator =
      std::make_shared<Communicator>(calls, nullptr, comm, NcclCalls::Title{"end", host.title(), Site::current()});
  return std::make_unique<NcclComm>(host, calls, std::move(communicator));
}

void let_ranks_share_a_gpu(int rank, bool one_node) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", keep);
  setenv("NCCL_HOSTID", cat(host, "-rank-", rank).c_str(), keep);
  setenv("NCCL_NET", "Socket", keep);
  if (one_node) setenv("NCCL_SOCKET_IFNAME", "lo", keep);
  setenv("NCCL_MAX_CTAS", "4", keep);  // the GPU's blocks of all ranks' calls must fit in at once, or they wait for ever
  setenv("NCCL_NVLS_ENABLE", "0", keep);
}

}  // namespace course
