#include "common/comm/staged.hpp"

namespace course {
namespace {

Elements elements_of(Tensor& x) { return {x.raw(), x.numel(), x.dtype(), Device::Cpu}; }

}  // namespace

Staged::Staged(std::unique_ptr<Comm> inner, Backend& backend) : CommDecorator(std::move(inner)), backend_(backend) {}

std::unique_ptr<Comm> Staged::split(int color, int key, const std::string& name, Site at) {
  return std::make_unique<Staged>(inner().split(color, key, name, at), backend_);
}

Work Staged::start(const Call& call) {
  if (call.on_host()) return inner().start(call);
  const bool in_place = call.in.data == call.out.data;
  if (in_place && size() == 1) return {};
  const bool broadcast = call.op == Op::Broadcast, root = call.peer == rank();
  const bool gives = call.op != Op::Recv && (!broadcast || root), gets = call.op != Op::Send && (!broadcast || !root);
  const auto room_for = [this](const Elements& x) {
    return std::make_shared<Tensor>(backend_.staging(), Shape{x.count}, x.type);
  };
  const std::shared_ptr<Tensor> in = room_for(call.in), out = in_place ? in : room_for(call.out);
  if (gives) backend_.copy_out(call.in.data, in->raw(), in->bytes());
  Call staged = call;
  staged.in = elements_of(*in);
  staged.out = elements_of(*out);
  const auto work = std::make_shared<Work>(inner().start(staged));
  return Work([this, work, in, out, gets, to = call.out.data, arrived = false]() mutable {
    if (arrived) return true;
    if (!work->test()) return false;
    if (gets) backend_.copy_in(to, out->raw(), out->bytes());
    return arrived = true;
  });
}

}  // namespace course
