#include "chapters/04_sharded_linear/linear.hpp"

#include <cmath>

namespace course {

Linear::Linear(Backend& backend, int64_t in_features, int64_t out_features, bool with_bias)
    : Module(backend),
      weight(add_parameter("weight", {out_features, in_features}, {Init::Uniform, 1 / std::sqrt(double(in_features))})),
      bias(with_bias ? &add_parameter("bias", {out_features}, {Init::Uniform, 1 / std::sqrt(double(in_features))})
                     : nullptr) {}

DTensor Linear::run_forward(DTensor x) {
  const Tensor &in = x.local(), &w = weight.value();
  require(in.dim(-1) == w.dim(1), weight.name(), ": x has ", in.dim(-1), " features, the weight here takes ", w.dim(1));
  Shape shape = in.shape();
  shape.back() = w.dim(0);
  Tensor y = backend().empty(std::move(shape), in.dtype());
  backend().matmul(in, false, w, true, y);
  if (bias && adds_bias_) backend().add_bias(y, bias->value());
  x_ = keep(x);
  return y;
}

DTensor Linear::run_backward(DTensor dy) {
  const DTensor x = std::exchange(x_, {});
  require(x.defined(), weight.name(), ": backward without a forward");
  const Tensor &in = x.local(), &dout = dy.local();
  backend().matmul(dout, true, in, false, weight.gradient(), true);
  if (bias) backend().sum_rows(dout, bias->gradient());
  Tensor dx = backend().empty_like(in);
  backend().matmul(dout, false, weight.value(), false, dx);
  return dx;
}

}  // namespace course
