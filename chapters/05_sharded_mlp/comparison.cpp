#include "chapters/05_sharded_mlp/comparison.hpp"

#include <cmath>
#include <iomanip>

#include "chapters/01_column_row_split/split.hpp"
#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "common/chunk.hpp"
#include "common/rng.hpp"

namespace course {
namespace {

Tensor part_of(Backend& backend, const Tensor& whole, const Box& box) {
  Tensor part = backend.clone(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) part = backend.slice(part, d, box.offset[d], box.size[d]);
  return part;
}

// The largest |a - b| in parts of the largest |b|; 0 where both hold nothing but zeros.
double difference(Backend& backend, const Tensor& a, const Tensor& b) {
  const double apart = largest_difference(backend, a, b);
  const double size = largest_difference(backend, b, backend.zeros(b.shape()));
  return apart == 0 || !std::isfinite(apart) ? apart : apart / size;
}

}  // namespace

Cost all_reduce_cost(double bytes, int ranks) { return {ranks > 1 ? 1 : 0, 2.0 * (ranks - 1) / ranks * bytes}; }
Cost gather_cost(double bytes, int ranks) { return {ranks > 1 ? 1 : 0, 1.0 * (ranks - 1) / ranks * bytes}; }

Tensor draw_numbers(Backend& backend, const std::string& name, const Shape& shape) {
  const Rng rng(1752, name);
  std::vector<float> values(numel(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * rng.uniform(i) - 1);
  return backend.from_host(values, shape);
}

Comparison::Comparison(const DeviceMesh& tp, Traffic& traffic, const Shape& shape)
    : tp_(tp),
      traffic_(&traffic),
      x_(draw_numbers(tp.backend(), "x", shape)),
      dy_(draw_numbers(tp.backend(), "dy", shape)) {}

void Comparison::note(const std::string& name, double largest) {
  largest = tp_.comm().max(largest);
  differences_.row(name, cat(std::setprecision(2), largest));
  largest_ = std::max(largest_, largest);
}

void Comparison::add(const std::string& name, const Tensor& got, const Tensor& expected, const Cost& cost) {
  sent_.add(name, traffic_->total(), cost.calls, cost.bytes);
  note(name, difference(tp_.backend(), got, expected));
}

void Comparison::run(const std::string& name, Module& serial, Module& sharded, Entrance entrance, const Cost& forward,
                     const Cost& backward) {
  Backend& backend = tp_.backend();
  Comm& comm = tp_.comm();
  const Placement outside = entrance == Entrance::Sliced ? Placement(Shard(1)) : Replicate();
  const auto own = [&](const Tensor& whole) {
    return part_of(backend, whole, local_box(tp_, {outside}, whole.shape()));
  };
  const ConjugatePair& pair = entrance == Entrance::Sliced ? gather : f;

  clear_gradients(serial);
  clear_gradients(sharded);
  const Tensor y = serial.forward(backend.clone(x_)).take(backend);
  const Tensor dx = serial.backward(backend.clone(dy_)).take(backend);

  traffic_->clear();
  DTensor in = own(x_);
  if (entrance != Entrance::Whole)
    in = DTensor::from_local(pair.forward(backend, comm, in.local(), x_.shape()), tp_, {Replicate()});
  const DTensor out = sharded.forward(std::move(in));
  sent_.add(name + ", forward", traffic_->total(), forward.calls, forward.bytes);
  double largest = difference(backend, out.local(), own(y));

  traffic_->clear();
  DTensor din = sharded.backward(own(dy_));
  if (entrance != Entrance::Whole) din = pair.backward(backend, comm, din.local(), x_.shape());
  sent_.add(name + ", backward", traffic_->total(), backward.calls, backward.bytes);
  largest = std::max(largest, difference(backend, din.local(), own(dx)));

  const Parameters whole = parameters_of(serial), parts = parameters_of(sharded);
  for (size_t i = 0; i < whole.size(); ++i)
    largest = std::max(
        largest, difference(backend, parts[i]->gradient(), part_of(backend, whole[i]->gradient(), parts[i]->box())));
  note(name, largest);
}

void Comparison::check() const {
  sent_.check(tp_.comm());
  require_shared(largest_ <= 1e-5, "a sharded module differs from its serial self by ", largest_, " of 1");
}

std::string holdings(const DeviceMesh& tp, Module& module) {
  std::vector<std::string> header = {"rank"}, own;
  for (const Parameter* p : parameters_of(module)) header.push_back(p->name());
  std::vector<std::vector<std::string>> columns;
  for (const Parameter* p : parameters_of(module))
    columns.push_back(tp.comm().all_gather_text(numel(p->box().size) == 0 ? "nothing" : show(p->box())));
  Table table(header);
  for (int64_t r = 0; r < tp.size(); ++r) {
    std::vector<std::string> row = {cat(r)};
    for (const auto& column : columns) row.push_back(column[r]);
    table.add(row);
  }
  return table.str();
}

std::string idle_ranks(int64_t n, int64_t ranks, const std::string& what, int64_t block, const std::string& name) {
  std::string idle;
  for (int64_t r = 0; r < ranks; ++r)
    if (chunk(n, ranks, r, block).size == 0) idle += cat(idle.empty() ? "" : ", ", r);
  return idle.empty() ? "" : cat("idle, for want of ", what, ": ", name, " ", idle, "\n");
}

}  // namespace course
