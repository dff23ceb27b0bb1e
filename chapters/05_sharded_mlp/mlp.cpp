#include "chapters/05_sharded_mlp/mlp.hpp"

namespace course {

GeluMlp::GeluMlp(Backend& backend, int64_t hidden, int64_t intermediate, Gelu gelu)
    : Module(backend),
      fc1(add("fc1", std::make_unique<Linear>(backend, hidden, intermediate, true))),
      fc2(add("fc2", std::make_unique<Linear>(backend, intermediate, hidden, true))),
      gelu_(gelu) {}

DTensor GeluMlp::run_forward(DTensor x) {
  const DTensor between = fc1.forward(std::move(x));
  Tensor active = backend().empty_like(between.local());
  backend().gelu(between.local(), gelu_, active);
  between_ = keep(between);
  return fc2.forward(std::move(active));
}

DTensor GeluMlp::run_backward(DTensor dy) {
  const DTensor between = std::exchange(between_, {});
  const DTensor dactive = fc2.backward(std::move(dy));
  Tensor dbetween = backend().empty_like(between.local());
  backend().gelu_backward(dactive.local(), between.local(), gelu_, dbetween);
  return fc1.backward(std::move(dbetween));
}

SwiGluMlp::SwiGluMlp(Backend& backend, int64_t hidden, int64_t intermediate)
    : Module(backend),
      gate_proj(add("gate_proj", std::make_unique<Linear>(backend, hidden, intermediate))),
      up_proj(add("up_proj", std::make_unique<Linear>(backend, hidden, intermediate))),
      down_proj(add("down_proj", std::make_unique<Linear>(backend, intermediate, hidden))) {}

DTensor SwiGluMlp::run_forward(DTensor x) {
  const DTensor gate = gate_proj.forward(x), up = up_proj.forward(std::move(x));
  Tensor active = backend().empty_like(gate.local());
  backend().silu_mul(gate.local(), up.local(), active);
  gate_ = keep(gate);
  up_ = keep(up);
  return down_proj.forward(std::move(active));
}

DTensor SwiGluMlp::run_backward(DTensor dy) {
  const DTensor gate = std::exchange(gate_, {}), up = std::exchange(up_, {});
  const DTensor dactive = down_proj.backward(std::move(dy));
  Tensor dgate = backend().empty_like(gate.local()), dup = backend().empty_like(up.local());
  backend().silu_mul_backward(dactive.local(), gate.local(), up.local(), dgate, dup);
  DTensor dx = gate_proj.backward(std::move(dgate));  // one after the other: all ranks communicate in one order
  return course::add(backend(), std::move(dx), up_proj.backward(std::move(dup)));
}

}  // namespace course
