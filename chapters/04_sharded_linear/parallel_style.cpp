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

// A Linear knows the size of the dim that it multiplies; a cut of another dim is taken to be even.
WholeShape features_of(const Linear& linear, const Placement& given, const DeviceMesh& tp) {
  return [features = linear.weight.global()[1], given, ranks = tp.size()](Shape shape) {
    const Placement placed = from_front(given, static_cast<int64_t>(shape.size()));
    if (const Shard* s = as_shard(placed))
      shape[s->dim] = s->dim + 1 == std::ssize(shape) ? features : shape[s->dim] * ranks;
    return shape;
  };
}

Shape as_it_is(Shape shape) { return shape; }

// x, if its layout is on the mesh that the style cuts over: on another, its placement would mean other ranks.
DTensor on_mesh(const DeviceMesh& tp, DTensor x) {
  require_shared(x.layout().mesh == tp, "a tensor of ", show(x.layout()), " came to a style on ", tp.show());
  return x;
}

void require_blocks(const Parameter& weight, int64_t dim, int64_t block) {
  const int64_t size = weight.global()[dim];
  require_shared(block > 0 && size % block == 0, weight.name(), ' ', show(weight.global()), " cannot be cut in dim ",
                 dim, " between blocks of ", block);
}

[[noreturn]] void refuse(const char* style, const Module& module) {
  throw SharedError(cat(style, " takes a Linear or an Embedding, not a ", module.kind()));
}

}  // namespace

void ParallelStyle::apply(Module& module, const DeviceMesh& tp) const {
  require_shared(tp.dims() == 1, show(), " takes a mesh of one axis, not ", tp.show(), ": pass mesh[\"tp\"]");
  require_shared(!module.styled(), "a ", module.kind(), " is styled twice: ", module.style(), ", then ", show());
  cut(module, tp);
  module.set_style(show());
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
    x = plain ? DTensor::from_local(x, tp, {given}, whole_of(whole, x)) : on_mesh(tp, std::move(x));
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
    y = y.has_layout() ? on_mesh(tp, std::move(y)) : DTensor::from_local(y, tp, {produced}, whole_of(whole, y));
    y = y.redistribute({wanted});
    *outside = y.layout();
    return to_local ? y.to_local() : y;
  };
  hooks.before_backward = [=](DTensor dy) {
    require(outside->has_value(), "backward without a forward");
    const Layout at = *std::exchange(*outside, std::nullopt);
    dy = dy.has_layout() ? on_mesh(tp, std::move(dy))
                         : DTensor::from_local(dy, tp, {gradient_of(at.placements[0])}, at.global);
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
    require_blocks(linear->weight, 0, block_);
    // exercise styles {
    linear->weight.place(tp, Shard(0, block_), Shard(0, block_));
    if (linear->bias) linear->bias->place(tp, Shard(0, block_), Shard(0, block_));
    module.wrap(convert_input(tp, input_, Replicate(), Partial(), false, features_of(*linear, input_, tp)));
    module.wrap(convert_output(tp, columns, output_.value_or(columns), use_local_output_,
                               last_dim(linear->weight.global()[0])));
    // } exercise
  } else if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
    require_blocks(embedding->weight, 1, block_);
    embedding->weight.place(tp, Shard(1, block_), Shard(1, block_));
    module.wrap({convert_input(tp, input_, Replicate(), Replicate(), false).before_forward, nullptr, nullptr, nullptr});
    module.wrap(convert_output(tp, columns, output_.value_or(columns), use_local_output_,
                               last_dim(embedding->weight.global()[1])));
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
    require_blocks(linear->weight, 1, block_);
    // exercise styles {
    linear->weight.place(tp, Shard(1, block_), Shard(1, block_));
    if (linear->bias) linear->bias->place(tp, Replicate(), Replicate());
    linear->add_bias_here(tp.coordinate() == 0);
    const Placement given = input_.value_or(rows);
    module.wrap(convert_input(tp, given, rows, rows, false, features_of(*linear, given, tp)));
    module.wrap(convert_output(tp, Partial(), output_, use_local_output_, as_it_is));
    // } exercise
  } else if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
    require_blocks(embedding->weight, 0, block_);
    // exercise styles {
    embedding->weight.place(tp, Shard(0, block_), Shard(0, block_));
    module.wrap({convert_input(tp, input_.value_or(Shard(-1)), Replicate(), Replicate(), false).before_forward, nullptr,
                 nullptr, nullptr});
    module.wrap(convert_output(tp, Partial(), output_, use_local_output_, as_it_is));
    // } exercise
  } else {
    refuse("RowwiseParallel", module);
  }
}

}  // namespace course

// Exercise 04 styles
// Task: Style a Linear by columns, a Linear by rows, and an Embedding by rows of its vocabulary. Say for each parameter
// how its value and its gradient lie (place), then wrap the module: convert_input says what comes in, what the module
// wants, and what its input's gradient is; convert_output says what the module produces and what the caller wants. Both
// do the communication of both ways.
// Hint: weight is [O, I]. Columns of W in y = x Wᵀ are rows of weight: by columns means Shard(0), by rows Shard(1).
// Hint: by columns every rank multiplies the whole x, each for other outputs: the gradient of x is a term on each rank,
// so Partial.
// Hint: by rows the outputs are terms. A bias that every rank adds would be in the sum P times: one rank adds it.
// Why: The two cuts are each other's mirror. By columns nothing is sent forward and one all-reduce backward; by rows
// the other way round. What a rank holds decides which direction has the sum.
// Wrong no_backward_sum: The gradient of the input is said to be whole, but each rank saw only its own outputs: it is a
// term. Forward is right all the same, which is why this is found late: say Partial.
//   - module.wrap(convert_input(tp, input_, Replicate(), Partial(), false, features_of(*linear, input_, tp)));
//   + module.wrap(convert_input(tp, input_, Replicate(), Replicate(), false, features_of(*linear, input_, tp)));
// Wrong bias_on_every_rank: Every rank adds the bias to its term, so the sum has it P times. One rank adds it.
//   - linear->add_bias_here(tp.coordinate() == 0);
// Wrong bias_on_no_rank: No rank adds the bias.
//   - linear->add_bias_here(tp.coordinate() == 0);
//   + linear->add_bias_here(false);
// Wrong bias_of_columns_whole: Each rank adds the whole bias to its columns. By columns the bias is cut as the outputs
// are.
//   - if (linear->bias) linear->bias->place(tp, Shard(0, block_), Shard(0, block_));
//   + if (linear->bias) linear->bias->place(tp, Replicate(), Replicate());
// Wrong term_as_whole: By rows each rank returns its own term as if it were the sum. The output is Partial until it is
// added.
//   - if (linear->bias) linear->bias->place(tp, Replicate(), Replicate());
//   - linear->add_bias_here(tp.coordinate() == 0);
//   - const Placement given = input_.value_or(rows);
//   - module.wrap(convert_input(tp, given, rows, rows, false, features_of(*linear, given, tp)));
//   - module.wrap(convert_output(tp, Partial(), output_, use_local_output_, as_it_is));
//   + if (linear->bias) linear->bias->place(tp, Replicate(), Replicate());
//   + linear->add_bias_here(tp.coordinate() == 0);
//   + const Placement given = input_.value_or(rows);
//   + module.wrap(convert_input(tp, given, rows, rows, false, features_of(*linear, given, tp)));
//   + module.wrap(convert_output(tp, Replicate(), output_, use_local_output_, as_it_is));
// Wrong row_and_column_swapped: The weight is cut along its inputs where its outputs were meant. weight is [O, I].
//   - linear->weight.place(tp, Shard(0, block_), Shard(0, block_));
//   + linear->weight.place(tp, Shard(1, block_), Shard(1, block_));
