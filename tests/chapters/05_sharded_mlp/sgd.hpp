// A few steps of plain gradient descent on a serial and a sharded module: the parameters must stay equal. For chapters
// whose library has no optimizer yet.
#pragma once

#include "tests/support/check_module.hpp"

namespace course::test {

inline void sgd_step(Module& module, float lr) {
  for (Parameter* p : parameters_of(module)) {
    Tensor step = backend().clone(p->gradient());
    backend().scale(step, -lr);
    backend().add(p->owned_to_write(), step);
  }
  clear_gradients(module);
}

// Each rank's part of every parameter against the serial one; one that every rank holds whole is the same bits on all
// of them.
inline void check_parameters(Module& serial, Module& sharded, const DeviceMesh& tp, double tolerance = 1e-5) {
  const Parameters whole = parameters_of(serial), parts = parameters_of(sharded);
  CHECK(whole.size() == parts.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    INFO(parts[i]->name());
    CHECK(differs(parts[i]->value(), part_of(whole[i]->value(), parts[i]->box()), tolerance) == "");
    if (!is_replicate(parts[i]->placement(tp.name(0)))) continue;
    Tensor first = backend().clone(parts[i]->value());
    tp.comm().broadcast(first, 0).wait();
    CHECK(differs(parts[i]->value(), first) == "");
  }
}

// Forward, backward, step, three times, with other numbers each time. `run` does what is around the sharded module.
inline void check_steps(Module& serial, Module& sharded, const DeviceMesh& tp, const Shape& shape,
                        const std::function<void(const Tensor& x, const Tensor& dy)>& run) {
  clear_gradients(serial), clear_gradients(sharded);
  for (int step = 1; step <= 3; ++step) {
    INFO("step " << step);
    const Tensor x = random(cat("x", step), shape), dy = random(cat("dy", step), shape);
    serial.forward(backend().clone(x));
    serial.backward(backend().clone(dy));
    run(x, dy);
    sgd_step(serial, 0.1F), sgd_step(sharded, 0.1F);
    check_parameters(serial, sharded, tp);
  }
}

}  // namespace course::test
