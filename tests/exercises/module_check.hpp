// A module cut over ranks against its serial self: the output, the gradient of the input, every parameter's part of the gradient.
#pragma once

#include <optional>

#include "chapters/04_sharded_linear/module.hpp"
#include "tests/exercises/check.hpp"

namespace course {

struct ModuleSides {
  Placement input = Replicate();   // how a rank's x lies, and dx comes back
  Placement output = Replicate();  // how y comes, and a rank's dy lies
  double tolerance = 1e-5;
};

inline Tensor part_of(Check& check, const Tensor& whole, const DeviceMesh& tp, const Placement& placement) {
  const Box box = local_box(tp, {from_front(placement, whole.rank())}, whole.shape());
  Tensor part = check.backend().clone(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) part = check.backend().slice(part, d, box.offset[d], box.size[d]);
  return part;
}

// `serial` has no style, and the same parameters as `sharded`, filled from one seed. x and dy are whole and alike on every rank. A
// gradient that its parameter says is Partial is added over the ranks before it is compared. Collective over tp.
inline void check_module(Check& check, const std::string& what, Module& serial, Module& sharded, const DeviceMesh& tp,
                         const Tensor& x, const Tensor& dy, const ModuleSides& sides) {
  Backend& backend = check.backend();
  const Tensor y = serial.forward(backend.clone(x)).take(backend), dx = serial.backward(backend.clone(dy)).take(backend);
  const bool has_dx = x.dtype() == DType::F32;
  const Tensor mine = sharded.forward(part_of(check, x, tp, sides.input)).to_local().take(backend);
  check.equal(cat(what, ": output"), mine, part_of(check, y, tp, sides.output), sides.tolerance);
  const Tensor dmine = sharded.backward(part_of(check, dy, tp, sides.output)).to_local().take(backend);
  if (has_dx) check.equal(cat(what, ": gradient of the input"), dmine, part_of(check, dx, tp, sides.input), sides.tolerance);
  const Parameters whole = parameters_of(serial), cut = parameters_of(sharded);
  for (size_t i = 0; i < whole.size(); ++i) {
    Tensor gradient = backend.clone(cut[i]->gradient());
    if (is_partial(cut[i]->grad_placement(tp.name(0)))) tp.comm().all_reduce(gradient).wait();
    check.equal(cat(what, ": gradient of ", cut[i]->name()), gradient,
                part_of(check, whole[i]->gradient(), tp, cut[i]->placement(tp.name(0))), sides.tolerance);
  }
}

}  // namespace course
