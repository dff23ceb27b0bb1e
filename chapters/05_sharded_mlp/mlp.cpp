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
  // exercise mlp {
  const DTensor gate = gate_proj.forward(x), up = up_proj.forward(std::move(x));
  Tensor active = backend().empty_like(gate.local());
  backend().silu_mul(gate.local(), up.local(), active);
  gate_ = keep(gate);
  up_ = keep(up);
  return down_proj.forward(std::move(active));
  // } exercise
}

DTensor SwiGluMlp::run_backward(DTensor dy) {
  // exercise mlp {
  const DTensor gate = std::exchange(gate_, {}), up = std::exchange(up_, {});
  const DTensor dactive = down_proj.backward(std::move(dy));
  Tensor dgate = backend().empty_like(gate.local()), dup = backend().empty_like(up.local());
  backend().silu_mul_backward(dactive.local(), gate.local(), up.local(), dgate, dup);
  DTensor dx = gate_proj.backward(std::move(dgate));  // one after the other: all ranks communicate in one order
  return course::add(backend(), std::move(dx), up_proj.backward(std::move(dup)));
  // } exercise
}

}  // namespace course

// Exercise 05 mlp
// Task: Write forward and backward of Llama's MLP, down_proj(silu(gate_proj(x)) · up_proj(x)). Keep gate and up for
// backward (keep()). The code is serial: styled by columns, columns, rows, it must send one all-reduce forward and one
// backward, and no more.
// Hint: backend().silu_mul(gate, up, y) and its backward work element by element, so a rank's columns need no
// neighbour.
// Hint: x has two users. Its gradient is the sum of what both hand back: course::add.
// Why: By columns, a function of each element, by rows: the only number that needs other ranks is the last sum. gate
// and up share their input, so their gradients are added before anything is sent, and one all-reduce serves both.
// Wrong only_gate: The gradient of x by way of up_proj is lost. x has two users, and its gradient is the sum of both.
//   - return course::add(backend(), std::move(dx), up_proj.backward(std::move(dup)));
//   + up_proj.backward(std::move(dup));
//   + return dx;
// Wrong swapped: gate and up have changed places: silu belongs to the gate.
//   - backend().silu_mul(gate.local(), up.local(), active);
//   + backend().silu_mul(up.local(), gate.local(), active);
// Wrong backward_swapped: The gradients of gate and up have changed places on their way back.
//   - backend().silu_mul_backward(dactive.local(), gate.local(), up.local(), dgate, dup);
//   + backend().silu_mul_backward(dactive.local(), gate.local(), up.local(), dup, dgate);
// Wrong two_reductions: Right, and it sends twice what it must: each projection's gradient is added over the ranks by
// itself. Add the two on each rank, and reduce the sum.
//   - return course::add(backend(), std::move(dx), up_proj.backward(std::move(dup)));
//   + DTensor by_up = up_proj.backward(std::move(dup));
//   + if (!dx.has_layout()) return course::add(backend(), std::move(dx), by_up);
//   + const Layout layout = dx.layout();
//   + dx = course::add(backend(), dx.redistribute({Replicate()}), by_up.redistribute({Replicate()}));
//   + Tensor mine = std::move(dx).take(backend());
//   + backend().scale(mine, 1.0f / static_cast<float>(layout.mesh.size()));
//   + return DTensor(std::move(mine), layout);
// Wrong no_gate: up goes on without the gate: silu(gate) does not multiply it.
//   - backend().silu_mul(gate.local(), up.local(), active);
//   + backend().copy(up.local(), active);
