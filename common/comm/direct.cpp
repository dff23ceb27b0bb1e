#include "common/comm/direct.hpp"

#include "common/comm/staged.hpp"

namespace course {

Direct::Direct(std::unique_ptr<Comm> inner, Backend& backend) : CommDecorator(std::move(inner)), backend_(backend) {}

std::unique_ptr<Comm> Direct::split(int color, int key, const std::string& name, Site at) {
  auto part = inner().split(color, key, name, at);
  if (part->size() == 1) return std::make_unique<Staged>(std::move(part), backend_);  // copies, and MPI is not asked
  return std::make_unique<Direct>(std::move(part), backend_);
}

Work Direct::start(const Call& call) {
  char byte;
  // A copy to the host comes after all that the device was given.
  for (const Elements& x : {call.in, call.out})
    if (x.device != Device::Cpu && x.count > 0) backend_.copy_out(x.data, &byte, 1);
  return inner().start(call);
}

}  // namespace course
