#include "chapters/07_sequence_parallel/rms_norm.hpp"

namespace course {

RmsNorm::RmsNorm(Backend& backend, int64_t hidden, double eps)
    : Module(backend), weight(add_parameter("weight", {hidden}, {Init::Constant, 1})), eps_(static_cast<float>(eps)) {}

namespace {

std::string show(const DTensor& x) { return x.has_layout() ? course::show(x.layout()) : "a plain tensor"; }

DTensor laid_out_as(const DTensor& x, Tensor y) {
  return x.has_layout() ? DTensor(std::move(y), x.layout()) : DTensor(std::move(y));
}

// A slice of the rows makes the weight's gradient a term of a sum. Who adds it up must know.
void require_summed(const DTensor& x, const Parameter& weight) {
  if (!x.has_layout()) return;
  const Layout& at = x.layout();
  for (int64_t axis = 0; axis < at.mesh.dims(); ++axis)
    require_shared(!as_shard(at.placements[axis]) || at.mesh.size(axis) == 1 ||
                       is_partial(weight.grad_placement(at.mesh.name(axis))),
                   weight.name(), ": x came as ", show(x),
                   ", but nobody says that the weight's gradient is Partial on ", at.mesh.name(axis),
                   ": style the norm with SequenceParallel");
}

}  // namespace

DTensor RmsNorm::run_forward(DTensor x) {
  if (training()) require_summed(x, weight);
  const Tensor& in = x.local();
  Tensor y = backend().empty_like(in), rstd = backend().empty({in.numel() / std::max<int64_t>(1, in.dim(-1))});
  backend().rms_norm(in, weight.value(), eps_, y, rstd);
  x_ = keep(x);
  if (training()) rstd_ = std::move(rstd);
  return laid_out_as(x, std::move(y));
}

DTensor RmsNorm::run_backward(DTensor dy) {
  const DTensor x = std::exchange(x_, {});
  const Tensor rstd = std::move(rstd_);
  require(x.defined(), weight.name(), ": backward without a forward");
  // A gradient that is still Partial would leave labelled as whole, and make the weight's a term of a sum that nobody
  // adds.
  require(!dy.has_layout() || (x.has_layout() && dy.layout() == x.layout()), weight.name(), ": x came as ", show(x),
          ", the gradient of y as ", show(dy), ": a redistribute is missing");
  Tensor dx = backend().empty_like(x.local());
  backend().rms_norm_backward(dy.local(), x.local(), weight.value(), rstd, dx, weight.gradient());
  return laid_out_as(x, std::move(dx));
}

}  // namespace course
