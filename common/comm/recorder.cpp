#include "common/comm/recorder.hpp"

#include "common/clock.hpp"

namespace course {
namespace {

double bytes_of(Elements x) { return static_cast<double>(x.count * size_of(x.type)); }

}  // namespace

bool is_tensor_type(DType type) { return type != DType::F64 && type != DType::U8 && type != DType::I64; }

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

double sent_bytes(const Call& call, int rank, int ranks) {
  switch (call.op) {
    case Op::AllToAll: return bytes_of(call.in) - static_cast<double>(call.counts[rank] * size_of(call.in.type));
    case Op::Recv:
    case Op::Barrier: return 0;
    default: return ring_bytes(call.op, bytes_of(call.whole()), ranks);
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

Work Recorder::start(const Call& call) {
  const double begin = seconds_now();
  auto work = std::make_shared<Work>(inner().start(call));
  if (size() == 1) return {};
  const std::string axis = is_tensor_type(call.whole().type) ? name() : "host";
  traffic_->add(call.op, axis, {1, sent_bytes(call, rank(), size()), 0});
  return Work([this, op = call.op, axis, work, begin](Until until) {
    const bool done = work->reached(until);
    if (done) traffic_->add(op, axis, {0, 0, seconds_now() - begin});
    return done;
  });
}

}  // namespace course
