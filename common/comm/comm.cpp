#include "common/comm/comm.hpp"

#include <sched.h>

#include <numeric>

namespace course {
namespace {

Elements elements(const Tensor& x) {
  return {const_cast<void*>(x.raw()), x.numel(), x.dtype(), x.device()};
}

void check_same_type(Op op, const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), name_of(op), ": ", name_of(a.dtype()), " sent, ", name_of(b.dtype()), " received");
}

int64_t sum_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

}  // namespace

const char* name_of(Op op) {
  switch (op) {
    case Op::Broadcast: return "broadcast";
    case Op::AllReduce: return "all-reduce";
    case Op::AllGather: return "all-gather";
    case Op::ReduceScatter: return "reduce-scatter";
    case Op::AllToAll: return "all-to-all";
    case Op::Send: return "send";
    case Op::Recv: return "recv";
    case Op::Barrier: return "barrier";
  }
  fail("no such collective");
}

Work::~Work() noexcept(false) {
  // While an exception unwinds, the other ranks may never come: waiting would turn the error into a hang.
  if (reached_ && std::uncaught_exceptions() == 0) wait();
}

bool Work::reached(Until until) {
  if (reached_ && reached_(until)) reached_ = nullptr;
  return !reached_;
}

void Work::wait() {
  while (!reached(Until::Ordered)) sched_yield();
}

std::string Comm::title() const { return cat(name(), " (rank ", rank(), " of ", size(), ")"); }

void Comm::check_counts(Op op, const Counts& counts, int64_t whole, int64_t shard) const {
  require(static_cast<int>(counts.size()) == size(), name_of(op), " on ", name(), ": ", counts.size(), " counts for ", size(),
          " ranks");
  require(sum_of(counts) == whole, name_of(op), " on ", name(), ": the counts add up to ", sum_of(counts), ", the whole has ",
          whole, " elements");
  require(counts[rank()] == shard, name_of(op), " on ", name(), ": rank ", rank(), " counts ", counts[rank()],
          " elements, its shard has ", shard);
}

Work Comm::broadcast(Elements x, int root, Site at) {
  require(root >= 0 && root < size(), "broadcast on ", name(), ": no rank ", root, " among ", size());
  return start({.op = Op::Broadcast, .in = x, .out = x, .at = at, .peer = root});
}

Work Comm::broadcast(Tensor& x, int root, Site at) { return broadcast(elements(x), root, at); }

Work Comm::all_reduce(Elements x, Reduce op, Site at) {
  return start({.op = Op::AllReduce, .in = x, .out = x, .at = at, .reduce = op});
}

Work Comm::all_reduce(Tensor& x, Reduce op, Site at) { return all_reduce(elements(x), op, at); }

Work Comm::all_gather(Elements shard, Elements whole, const Counts& counts, Site at) {
  check_counts(Op::AllGather, counts, whole.count, shard.count);
  return start({.op = Op::AllGather, .in = shard, .out = whole, .at = at, .counts = counts});
}

Work Comm::all_gather(const Tensor& shard, Tensor& whole, const Counts& counts, Site at) {
  check_same_type(Op::AllGather, shard, whole);
  return all_gather(elements(shard), elements(whole), counts, at);
}

Work Comm::reduce_scatter(const Tensor& whole, Tensor& shard, const Counts& counts, Site at) {
  check_same_type(Op::ReduceScatter, whole, shard);
  check_counts(Op::ReduceScatter, counts, whole.numel(), shard.numel());
  return start({.op = Op::ReduceScatter, .in = elements(whole), .out = elements(shard), .at = at, .counts = counts});
}

Work Comm::all_to_all(const Tensor& send, const Counts& send_counts, Tensor& receive, const Counts& receive_counts, Site at) {
  check_same_type(Op::AllToAll, send, receive);
  require(static_cast<int>(send_counts.size()) == size() && static_cast<int>(receive_counts.size()) == size(),
          "all-to-all on ", name(), ": ", send_counts.size(), " and ", receive_counts.size(), " counts for ", size(),
          " ranks");
  require(sum_of(send_counts) == send.numel() && sum_of(receive_counts) == receive.numel(), "all-to-all on ", name(),
          ": counts add up to ", sum_of(send_counts), " and ", sum_of(receive_counts), ", the tensors have ", send.numel(),
          " and ", receive.numel(), " elements");
  require(send_counts[rank()] == receive_counts[rank()], "all-to-all on ", name(), ": rank ", rank(), " sends itself ",
          send_counts[rank()], " elements and expects ", receive_counts[rank()]);
  return start({.op = Op::AllToAll,
                .in = elements(send),
                .out = elements(receive),
                .at = at,
                .counts = send_counts,
                .receive_counts = receive_counts});
}

Work Comm::send(const Tensor& x, int to, Site at) {
  require(to >= 0 && to < size() && to != rank(), "send on ", name(), ": rank ", rank(), " cannot send to rank ", to);
  return start({.op = Op::Send, .in = elements(x), .out = elements(x), .at = at, .peer = to});
}

Work Comm::recv(Tensor& x, int from, Site at) {
  require(from >= 0 && from < size() && from != rank(), "recv on ", name(), ": rank ", rank(),
          " cannot receive from rank ", from);
  return start({.op = Op::Recv, .in = elements(x), .out = elements(x), .at = at, .peer = from});
}

Work Comm::barrier(Site at) {
  const Elements none = {nullptr, 0, DType::U8, Device::Cpu};
  return start({.op = Op::Barrier, .in = none, .out = none, .at = at});
}

double Comm::sum(double x, Site at) {
  all_reduce(std::span(&x, 1), Reduce::Sum, at).wait();
  return x;
}

double Comm::max(double x, Site at) {
  all_reduce(std::span(&x, 1), Reduce::Max, at).wait();
  return x;
}

std::string Comm::broadcast_text(std::string text, int root, Site at) {
  int64_t length = static_cast<int64_t>(text.size());
  broadcast(std::span(&length, 1), root, at).wait();
  text.resize(length);
  broadcast(std::span(reinterpret_cast<uint8_t*>(text.data()), text.size()), root, at).wait();
  return text;
}

std::vector<std::string> Comm::all_gather_text(const std::string& text, Site at) {
  const int64_t length = static_cast<int64_t>(text.size());
  Counts lengths(size());
  all_gather(std::span(&length, 1), std::span(lengths), Counts(size(), 1), at).wait();
  std::string all(sum_of(lengths), '\0');
  all_gather(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()),
             std::span(reinterpret_cast<uint8_t*>(all.data()), all.size()), lengths, at)
      .wait();
  std::vector<std::string> texts;
  for (int64_t begin = 0, r = 0; r < size(); begin += lengths[r++]) texts.push_back(all.substr(begin, lengths[r]));
  return texts;
}

}  // namespace course
