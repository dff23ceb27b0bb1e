#include "common/comm/comm.hpp"

#include <sched.h>

#include <numeric>

namespace course {
namespace {

Elements elements(const Tensor& x) {
  return {const_cast<void*>(x.raw()), x.numel(), x.dtype(), x.device()};
}

void check_same_type(const char* what, const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), what, ": ", name_of(a.dtype()), " sent, ", name_of(b.dtype()), " received");
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
  if (done_ && std::uncaught_exceptions() == 0) wait();
}

bool Work::test() {
  if (done_ && done_()) done_ = nullptr;
  return !done_;
}

void Work::wait() {
  while (!test()) sched_yield();
}

void Comm::check_counts(const char* what, const Counts& counts, int64_t whole, int64_t shard) const {
  require(static_cast<int>(counts.size()) == size(), what, " on ", name(), ": ", counts.size(), " counts for ", size(),
          " ranks");
  require(sum_of(counts) == whole, what, " on ", name(), ": the counts add up to ", sum_of(counts), ", the whole has ",
          whole, " elements");
  require(counts[rank()] == shard, what, " on ", name(), ": rank ", rank(), " counts ", counts[rank()],
          " elements, its shard has ", shard);
}

Work Comm::broadcast(Tensor& x, int root) {
  require(root >= 0 && root < size(), "broadcast on ", name(), ": no rank ", root, " among ", size());
  return start_broadcast(elements(x), root);
}

Work Comm::all_reduce(Tensor& x, Reduce op) { return start_all_reduce(elements(x), op); }

Work Comm::checked_all_gather(Elements shard, Elements whole, const Counts& counts) {
  check_counts("all-gather", counts, whole.count, shard.count);
  return start_all_gather(shard, whole, counts);
}

Work Comm::all_gather(const Tensor& shard, Tensor& whole, const Counts& counts) {
  check_same_type("all-gather", shard, whole);
  return checked_all_gather(elements(shard), elements(whole), counts);
}

Work Comm::reduce_scatter(const Tensor& whole, Tensor& shard, const Counts& counts) {
  check_same_type("reduce-scatter", whole, shard);
  check_counts("reduce-scatter", counts, whole.numel(), shard.numel());
  return start_reduce_scatter(elements(whole), elements(shard), counts);
}

Work Comm::all_to_all(const Tensor& send, const Counts& send_counts, Tensor& receive, const Counts& receive_counts) {
  check_same_type("all-to-all", send, receive);
  require(static_cast<int>(send_counts.size()) == size() && static_cast<int>(receive_counts.size()) == size(),
          "all-to-all on ", name(), ": ", send_counts.size(), " and ", receive_counts.size(), " counts for ", size(),
          " ranks");
  require(sum_of(send_counts) == send.numel() && sum_of(receive_counts) == receive.numel(), "all-to-all on ", name(),
          ": counts add up to ", sum_of(send_counts), " and ", sum_of(receive_counts), ", the tensors have ", send.numel(),
          " and ", receive.numel(), " elements");
  require(send_counts[rank()] == receive_counts[rank()], "all-to-all on ", name(), ": rank ", rank(), " sends itself ",
          send_counts[rank()], " elements and expects ", receive_counts[rank()]);
  return start_all_to_all(elements(send), send_counts, elements(receive), receive_counts);
}

Work Comm::send(const Tensor& x, int to) {
  require(to >= 0 && to < size() && to != rank(), "send on ", name(), ": rank ", rank(), " cannot send to rank ", to);
  return start_send(elements(x), to);
}

Work Comm::recv(Tensor& x, int from) {
  require(from >= 0 && from < size() && from != rank(), "recv on ", name(), ": rank ", rank(),
          " cannot receive from rank ", from);
  return start_recv(elements(x), from);
}

Work Comm::barrier() { return start_barrier(); }

double Comm::sum(double x) {
  all_reduce(std::span(&x, 1)).wait();
  return x;
}

double Comm::max(double x) {
  all_reduce(std::span(&x, 1), Reduce::Max).wait();
  return x;
}

std::string Comm::broadcast_text(std::string text, int root) {
  int64_t length = static_cast<int64_t>(text.size());
  broadcast(std::span(&length, 1), root).wait();
  text.resize(length);
  broadcast(std::span(reinterpret_cast<uint8_t*>(text.data()), text.size()), root).wait();
  return text;
}

std::vector<std::string> Comm::all_gather_text(const std::string& text) {
  const int64_t length = static_cast<int64_t>(text.size());
  Counts lengths(size());
  all_gather(std::span(&length, 1), std::span(lengths), Counts(size(), 1)).wait();
  std::string all(sum_of(lengths), '\0');
  all_gather(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()),
             std::span(reinterpret_cast<uint8_t*>(all.data()), all.size()), lengths)
      .wait();
  std::vector<std::string> texts;
  for (int64_t begin = 0, r = 0; r < size(); begin += lengths[r++]) texts.push_back(all.substr(begin, lengths[r]));
  return texts;
}

}  // namespace course
