#include "chapters/07_sequence_parallel/stream_comparison.hpp"

#include <cmath>

#include "chapters/01_column_row_split/split.hpp"
#include "chapters/05_sharded_mlp/comparison.hpp"

namespace course {
namespace {

Tensor part_of(Backend& backend, const Tensor& whole, const Box& box) {
  Tensor part = backend.clone(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) part = backend.slice(part, d, box.offset[d], box.size[d]);
  return part;
}

double largest(Backend& backend, const Tensor& x) { return largest_difference(backend, x, backend.zeros(x.shape())); }

}  // namespace

StreamComparison::StreamComparison(const DeviceMesh& tp, Traffic& traffic, Module& serial, const Shape& shape)
    : tp_(tp),
      traffic_(&traffic),
      x_(draw_numbers(tp.backend(), "x", shape)),
      dy_(draw_numbers(tp.backend(), "dy", shape)) {
  Backend& backend = tp.backend();
  clear_gradients(serial);
  y_ = serial.forward(backend.clone(x_)).take(backend);
  dx_ = serial.backward(backend.clone(dy_)).take(backend);
  for (Parameter* p : parameters_of(serial)) {
    gradients_.push_back(backend.clone(p->gradient()));
    steepest_ = std::max(steepest_, largest(backend, p->gradient()));
  }
}

StreamRun StreamComparison::run(Module& sharded, const Placement& stream) {
  Backend& backend = tp_.backend();
  const Box box = local_box(tp_, {stream}, x_.shape());
  const auto part = [&](const Tensor& whole) {
    const DTensor mine = part_of(backend, whole, box);
    return as_shard(stream) ? DTensor::from_local(mine, tp_, {stream}, whole.shape()) : mine;
  };
  StreamRun run{};
  // `whole` is what one rank has, `part` what this one should have of it.
  const auto compare = [&](const Tensor& got, const Tensor& whole, const Box& part, double at_least) {
    const double apart = largest_difference(backend, got, part_of(backend, whole, part));
    const double size = std::max(largest(backend, whole), at_least);
    if (apart > 0) run.difference = std::max(run.difference, apart / size);
  };

  clear_gradients(sharded);
  const int64_t before = backend.memory_use().now;
  traffic_->clear();
  {
    const DTensor y = sharded.forward(part(x_));
    run.forward = *traffic_;
    compare(y.local(), y_, box, 0);
  }
  run.kept = backend.memory_use().now - before;

  traffic_->clear();
  const DTensor dx = sharded.backward(part(dy_));
  run.backward = *traffic_;
  compare(dx.local(), dx_, box, 0);

  traffic_->clear();
  const Parameters parameters = parameters_of(sharded);
  for (Parameter* p : parameters)
    if (is_partial(p->grad_placement(tp_.name(0)))) tp_.comm().all_reduce(p->gradient()).wait();
  run.gradients = *traffic_;
  for (size_t i = 0; i < parameters.size(); ++i)
    compare(parameters[i]->gradient(), gradients_[i], parameters[i]->box(), steepest_ / 10);
  run.difference = tp_.comm().max(run.difference);
  return run;
}

}  // namespace course
