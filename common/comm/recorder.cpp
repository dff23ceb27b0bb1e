#include "common/comm/recorder.hpp"

#include <chrono>

namespace course {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double bytes_of(Elements x) { return static_cast<double>(x.count * size_of(x.type)); }

bool is_tensor_type(DType type) { return type != DType::F64 && type != DType::U8 && type != DType::I64; }

}  // namespace

Sent& Sent::operator+=(const Sent& more) {
  calls += more.calls;
  bytes += more.bytes;
  seconds += more.seconds;
  return *this;
}

double ring_bytes(Op op, double n, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (op) {
    case Op::AllReduce: return 2 * share * n;
    case Op::AllGather:
    case Op::ReduceScatter:
    case Op::Broadcast: return share * n;
    default: return n;
  }
}

Sent Traffic::of(Op op, const std::string& axis) const {
  Sent sum;
  for (const auto& [key, sent] : sent_)
    if (key.second == op && (axis.empty() ? key.first != "host" : key.first == axis)) sum += sent;
  return sum;
}

Sent Traffic::total(const std::string& axis) const {
  Sent sum;
  for (const Op op : all_ops) sum += of(op, axis);
  return sum;
}

Traffic Traffic::since(const Traffic& before) const {
  Traffic rest;
  for (const auto& [key, now] : sent_) {
    const auto found = before.sent_.find(key);
    const Sent then = found == before.sent_.end() ? Sent{} : found->second;
    if (now.calls > then.calls)
      rest.add(key.second, key.first, {now.calls - then.calls, now.bytes - then.bytes, now.seconds - then.seconds});
  }
  return rest;
}

Work Recorder::record(Op op, Elements whole, double bytes, const std::function<Work()>& start) {
  const bool tensor = is_tensor_type(whole.type);
  const std::string axis = tensor ? name() : "host";
  const double begin = seconds_now();
  auto inner = std::make_shared<Work>(start());
  if (size() == 1) return {};
  traffic_->add(op, axis, {1, bytes, 0});
  return Work([this, op, axis, inner, begin] {
    const bool done = inner->test();
    if (done) traffic_->add(op, axis, {0, 0, seconds_now() - begin});
    return done;
  });
}

Work Recorder::start_broadcast(Elements x, int root) {
  return record(Op::Broadcast, x, ring_bytes(Op::Broadcast, bytes_of(x), size()),
                [&] { return inner_->start_broadcast(x, root); });
}

Work Recorder::start_all_reduce(Elements x, Reduce op) {
  return record(Op::AllReduce, x, ring_bytes(Op::AllReduce, bytes_of(x), size()),
                [&] { return inner_->start_all_reduce(x, op); });
}

Work Recorder::start_all_gather(Elements shard, Elements whole, const Counts& counts) {
  return record(Op::AllGather, whole, ring_bytes(Op::AllGather, bytes_of(whole), size()),
                [&] { return inner_->start_all_gather(shard, whole, counts); });
}

Work Recorder::start_reduce_scatter(Elements whole, Elements shard, const Counts& counts) {
  return record(Op::ReduceScatter, whole, ring_bytes(Op::ReduceScatter, bytes_of(whole), size()),
                [&] { return inner_->start_reduce_scatter(whole, shard, counts); });
}

Work Recorder::start_all_to_all(Elements send, const Counts& send_counts, Elements receive, const Counts& receive_counts) {
  const double own = static_cast<double>(send_counts[rank()] * size_of(send.type));
  return record(Op::AllToAll, send, bytes_of(send) - own,
                [&] { return inner_->start_all_to_all(send, send_counts, receive, receive_counts); });
}

Work Recorder::start_send(Elements x, int to) {
  return record(Op::Send, x, bytes_of(x), [&] { return inner_->start_send(x, to); });
}

Work Recorder::start_recv(Elements x, int from) {
  return record(Op::Recv, x, 0, [&] { return inner_->start_recv(x, from); });
}

Work Recorder::start_barrier() {
  return record(Op::Barrier, {nullptr, 0, DType::U8, Device::Cpu}, 0, [&] { return inner_->start_barrier(); });
}

}  // namespace course
