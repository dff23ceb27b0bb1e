#include "chapters/04_sharded_linear/parallel_style.hpp"

#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"

namespace course {
namespace {

std::optional<Shape> whole_of(const WholeShape& whole, const DTensor& local) {
  return whole ? std::optional(whole(local.local().shape())) : std::nullopt;
}

WholeShape last_dim(int64_t size) {
  return [size](Shape shape) {
    shape.back() = size;
    return shape;
  };
}

Shape as_it_is(Shape shape) { return shape; }

[[noreturn]] void refuse(const char* style, const Module& module) {
  throw SharedError(cat(style, " takes a Linear or an Embedding, not a ", module.kind()));
}

}  // namespace

void ParallelStyle::apply(Module& module, const DeviceMesh& tp) const {
  require_shared(tp.dims() == 1, show(), " takes a mesh of one axis, not ", tp.show(), ": pass mesh[\"tp\"]");
  module.set_style(show());
  cut(module, tp);
}

Hooks convert_input(const DeviceMesh& tp, const Placement& given, const Placement& wanted, const Placement& gradient,
                    bool to_local, WholeShape whole) {
  struct Seen {
    bool plain = false;
    Layout outside, inside;
  };
  auto seen = std::make_shared<std::optional<Seen>>();
  Hooks hooks;
  hooks.before_forward = [=](DTensor x) {
    const bool plain = !x.has_layout();
    if (plain) x = DTensor::from_local(x, tp, {given}, whole_of(whole, x));
    const Layout outside = x.layout();
    x = x.redistribute({wanted});
    *seen = Seen{plain, outside, x.layout()};
    return to_local ? x.to_local() : x;
  };
  hooks.after_backward = [=](DTensor dx) {
    require(seen->has_value(), "backward without a forward");
    const Seen at = *std::exchange(*seen, std::nullopt);
    if (!dx.has_layout()) dx = DTensor::from_local(dx, tp, {gradient}, at.inside.global);
    if (at.plain || at.outside != at.inside) dx = dx.redistribute({gradient_of(at.outside.placements[0])});
    return at.plain ? dx.to_local() : dx;
  };
  return hooks;
}

Hooks convert_output(const DeviceMesh& tp, const Placement& produced, const Placement& wanted, bool to_local,
                     WholeShape whole) {
  auto outside = std::make_shared<std::optional<Layout>>();
  Hooks hooks;
  hooks.after_forward = [=](DTensor y) {
    if (!y.has_layout()) y = DTensor::from_local(y, tp, {produced}, whole_of(whole, y));
    y = y.redistribute({wanted});
    *outside = y.layout();
    return to_local ? y.to_local() : y;
  };
  hooks.before_backward = [=](DTensor dy) {
    require(outside->has_value(), "backward without a forward");
    const Layout at = *std::exchange(*outside, std::nullopt);
    if (!dy.has_layout()) dy = DTensor::from_local(dy, tp, at.placements, at.global);
    return dy.redistribute({gradient_of(produced)});
  };
  return hooks;
}

std::string ColwiseParallel::show() const {
  return cat("ColwiseParallel(", course::show(input_), " → ", course::show(output_.value_or(Shard(-1, block_))), ")");
}

void ColwiseParallel::cut(Module& module, const DeviceMesh& tp) const {
  const Placement columns = Shard(-1, block_);
  if (auto* linear = dynamic_cast<Linear*>(&module)) {
    linear->weight.place(tp, Shard(0, block_), Shard(0, block_));
    if (linear->bias) linear->bias->place(tp, Shard(0, block_), Shard(0, block_));
    module.wrap(convert_input(tp, input_, Replicate(), Partial(), false));
    module.wrap(convert_output(tp, columns, output_.value_or(columns), use_local_output_, last_dim(linear->weight.global()[0])));
  } else if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
    embedding->weight.place(tp, Shard(1, block_), Shard(1, block_));
    module.wrap({convert_input(tp, input_, Replicate(), Replicate(), false).before_forward, nullptr, nullptr, nullptr});
    module.wrap(convert_output(tp, columns, output_.value_or(columns), use_local_output_, last_dim(embedding->weight.global()[1])));
  } else {
    refuse("ColwiseParallel", module);
  }
}

std::string RowwiseParallel::show() const {
  return cat("RowwiseParallel(", course::show(input_.value_or(Shard(-1, block_))), " → ", course::show(output_), ")");
}

void RowwiseParallel::cut(Module& module, const DeviceMesh& tp) const {
  const Placement rows = Shard(-1, block_);
  if (auto* linear = dynamic_cast<Linear*>(&module)) {
    linear->weight.place(tp, Shard(1, block_), Shard(1, block_));
    if (linear->bias) linear->bias->place(tp, Replicate(), Replicate());
    linear->add_bias_here(tp.coordinate() == 0);
    const Placement given = input_.value_or(rows);
    module.wrap(convert_input(tp, given, rows, rows, false,
                              given == rows ? last_dim(linear->weight.global()[1]) : WholeShape()));
    module.wrap(convert_output(tp, Partial(), output_, use_local_output_, as_it_is));
  } else if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
    embedding->weight.place(tp, Shard(0, block_), Shard(0, block_));
    module.wrap({convert_input(tp, input_.value_or(rows), Replicate(), Replicate(), false).before_forward, nullptr, nullptr, nullptr});
    module.wrap(convert_output(tp, Partial(), output_, use_local_output_, as_it_is));
  } else {
    refuse("RowwiseParallel", module);
  }
}

}  // namespace course
