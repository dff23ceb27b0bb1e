// A sharded module against its serial self: output, gradient of the input, and each rank's box of every parameter's
// gradient.
//
//   Linear serial(backend(), I, O, true), sharded(backend(), I, O, true);
//   ColwiseParallel().apply(sharded, tp);
//   initialize(serial, 11), initialize(sharded, 11);
//   check_module(serial, sharded, tp, random("x", {B, I}), random("dy", {B, O}), {.output = Shard(-1)});
//
// Against PyTorch's numbers: check_module(expected_of(golden), sharded, tp, golden.tensor("in.x"),
// golden.tensor("in.dout")). x and dy are whole and alike on every rank; each rank is handed its part. Collective over
// tp; asserts on every rank with CHECK. For tests of chapters 04 and later.
#pragma once

#include <map>

#include "chapters/04_sharded_linear/module.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

// What a module should give. `dx` holds nothing where the input has no gradient (ids).
struct Expected {
  Tensor y, dx;
  std::map<std::string, Tensor> gradients;  // by parameter name
};

struct ModuleCheck {
  // How the whole x is handed to the sharded module, and dx comes back. Plain local parts, or with_layout a DTensor.
  Placement input = Replicate();
  bool with_layout = false;
  // How y comes out, and dy is handed in.
  Placement output = Replicate();
  // How dx comes back, where it is not as the input: Partial, to be added up here.
  std::optional<Placement> input_gradient = std::nullopt;
  double tolerance = 1e-5;
};

// A copy of the part of a tensor that a box names.
inline Tensor part_of(const Tensor& whole, const Box& box) {
  Tensor part = backend().clone(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) part = backend().slice(part, d, box.offset[d], box.size[d]);
  return part;
}

inline Tensor part_of(const Tensor& whole, const DeviceMesh& tp, const Placement& placement) {
  return part_of(whole, local_box(tp, {placement}, whole.shape()));
}

// Forward and backward of a serial module, from cleared gradients, which are left as they come.
inline Expected run_serial(Module& serial, const Tensor& x, const Tensor& dy) {
  clear_gradients(serial);
  Expected expected;
  expected.y = serial.forward(backend().clone(x)).take(backend());
  expected.dx = serial.backward(backend().clone(dy)).take(backend());
  if (x.dtype() != DType::F32) expected.dx = {};
  for (Parameter* p : parameters_of(serial)) expected.gradients.emplace(p->name(), backend().clone(p->gradient()));
  return expected;
}

// out.y, grad.x and every other grad.NAME of a golden file.
inline Expected expected_of(const Golden& golden) {
  Expected expected;
  expected.y = golden.tensor("out.y");
  if (golden.has("grad.x")) expected.dx = golden.tensor("grad.x");
  for (const auto& name : golden.names())
    if (name.starts_with("grad.") && name != "grad.x") expected.gradients.emplace(name.substr(5), golden.tensor(name));
  return expected;
}

// Fills every parameter from the tensor of its name. The file has no more parameters than the module, and no fewer.
inline void fill_from(Module& module, const Golden& golden) {
  size_t in_file = 0;
  for (const auto& name : golden.names())
    in_file += !name.starts_with("in.") && !name.starts_with("out.") && !name.starts_with("grad.");
  const Parameters parameters = parameters_of(module);
  CHECK(parameters.size() == in_file);
  for (Parameter* p : parameters) {
    CHECK(p->global() == golden.shape(p->name()));
    p->fill(golden.values(p->name()));
  }
}

// Runs the sharded module forward and backward, from cleared gradients, which are left as they come.
inline void check_module(const Expected& expected, Module& sharded, const DeviceMesh& tp, const Tensor& x,
                         const Tensor& dy, const ModuleCheck& how = {}) {
  const auto placed = [](const Tensor& whole, const Placement& p) { return from_front(p, whole.rank()); };
  clear_gradients(sharded);

  DTensor in = part_of(x, tp, how.input);
  if (how.with_layout) in = DTensor::from_local(in, tp, {how.input}, x.shape());
  const DTensor y = sharded.forward(std::move(in));
  {
    INFO("output");
    if (y.has_layout()) {
      CHECK(show(y.layout().placements) == show(Placements{placed(dy, how.output)}));
      CHECK(y.global() == expected.y.shape());
    }
    CHECK(differs(y.local(), part_of(expected.y, tp, how.output), how.tolerance) == "");
  }

  DTensor dout = part_of(dy, tp, how.output);
  if (y.has_layout()) dout = DTensor(part_of(dy, tp, how.output), y.layout());
  DTensor dx = sharded.backward(std::move(dout));
  if (expected.dx.defined()) {
    INFO("gradient of the input");
    const Placement comes_as = placed(x, how.input_gradient.value_or(how.input));
    CHECK(dx.has_layout() == how.with_layout);
    if (dx.has_layout())
      CHECK(show(dx.layout().placements) == show(Placements{comes_as}));
    else
      dx = DTensor::from_local(dx, tp, {comes_as}, x.shape());
    dx = dx.redistribute({placed(x, how.input)});
    CHECK(differs(dx.local(), part_of(expected.dx, tp, how.input), how.tolerance) == "");
  }

  const Parameters parameters = parameters_of(sharded);
  CHECK(parameters.size() == expected.gradients.size());
  for (Parameter* p : parameters) {
    INFO("gradient of " << p->name());
    const auto found = expected.gradients.find(p->name());
    CHECK(found != expected.gradients.end());
    Tensor gradient = backend().clone(p->gradient());
    if (is_partial(p->grad_placement(tp.name(0))) && tp.size() > 1) tp.comm().all_reduce(gradient).wait();
    if (found != expected.gradients.end())
      CHECK(differs(gradient, part_of(found->second, p->box()), how.tolerance) == "");
  }
}

// Both have the same parameters, filled alike: that is asserted too, bit by bit.
inline void check_module(Module& serial, Module& sharded, const DeviceMesh& tp, const Tensor& x, const Tensor& dy,
                         const ModuleCheck& how = {}) {
  const Parameters whole = parameters_of(serial), parts = parameters_of(sharded);
  CHECK(whole.size() == parts.size());
  for (size_t i = 0; i < std::min(whole.size(), parts.size()); ++i) {
    INFO("value of " << whole[i]->name());
    CHECK(whole[i]->name() == parts[i]->name());
    CHECK(differs(parts[i]->value(), part_of(whole[i]->value(), parts[i]->box())) == "");
  }
  check_module(run_serial(serial, x, dy), sharded, tp, x, dy, how);
}

// Every gradient of a serial module against finite differences of Σ y·dy: the slope between value - step and value +
// step, for each number of x and of the parameters. Keep the sizes small. x is f32, or ids (which have no slope).
inline void check_gradients_numerically(Module& module, const Tensor& x, const Tensor& dy, double step = 1e-2,
                                        double tolerance = 2e-3) {
  const Expected analytic = run_serial(module, x, dy);
  const auto weights = backend().to_host(dy);
  const auto loss = [&](const Tensor& at) {
    const auto y = backend().to_host(module.forward(backend().clone(at)).local());
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += double(y[i]) * weights[i];
    return sum;
  };
  const auto slopes = [&](Tensor& value, const Tensor& at) {
    const auto before = backend().to_host(value);
    std::vector<float> slope(before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      const auto loss_with = [&](float number) {
        auto moved = before;
        moved[i] = number;
        backend().copy_in(value, moved.data());
        return loss(at);
      };
      const float up = before[i] + static_cast<float>(step), down = before[i] - static_cast<float>(step);
      slope[i] = static_cast<float>((loss_with(up) - loss_with(down)) / (double(up) - down));
    }
    backend().copy_in(value, before.data());
    return backend().from_host(slope, value.shape());
  };
  if (analytic.dx.defined()) {
    INFO("gradient of the input against finite differences");
    Tensor moved = backend().clone(x);
    CHECK(differs(analytic.dx, slopes(moved, moved), tolerance) == "");
  }
  for (Parameter* p : parameters_of(module)) {
    INFO("gradient of " << p->name() << " against finite differences");
    CHECK(differs(analytic.gradients.at(p->name()), slopes(p->owned_to_write(), x), tolerance) == "");
  }
}

}  // namespace course::test
