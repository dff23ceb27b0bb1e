#include "chapters/03_device_mesh/transitions.hpp"

#include <cmath>

#include "chapters/01_column_row_split/sent_table.hpp"
#include "common/chunk.hpp"
#include "common/rng.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

const Placement R = Replicate(), P = Partial(), S0 = Shard(0), S1 = Shard(1), S1_blocks = Shard(1, 2);

std::vector<Transition> on_one_axis() {
  return {
      {{{S0}, {R}}, {{R}, {S0}}},
      {{{S0}, {R}}, {{P}, {S0}}},  // each rank used the whole for a part of the work: its
                                   // gradient is a term
      {{{S1}, {R}}, {{R}, {S1}}},
      {{{R}, {S0}}, {{S0}, {R}}},
      {{{R}, {S1}}, {{S1}, {R}}},
      {{{S0}, {S1}}, {{S1}, {S0}}},
      {{{S1}, {S0}}, {{S0}, {S1}}},
      {{{S1}, {S1_blocks}}, {{S1_blocks}, {S1}}},
      {{{P}, {R}}, {{R}, {R}}},
      {{{P}, {S0}}, {{S0}, {R}}},
      {{{P}, {S1}}, {{S1}, {R}}},
      {{{R}, {R}}, {{P}, {R}}},
  };
}

std::vector<Transition> on_two_axes() {
  return {
      {{{S0, R}, {R, R}}, {{R, R}, {S0, R}}},
      {{{S0, S1}, {R, S1}, {R, R}}, {{R, R}, {S0, R}, {S0, S1}}},
      {{{S0, S0}, {S0, R}, {R, R}}, {{R, R}, {S0, R}, {S0, S0}}},
      {{{R, R}, {S0, R}, {S0, S1}}, {{S0, S1}, {R, S1}, {R, R}}},
      {{{R, S0}, {R, S1}}, {{R, S1}, {R, S0}}},
      {{{S0, S1}, {S0, R}, {S1, R}}, {{S1, R}, {S0, R}, {S0, S1}}},
      {{{P, R}, {R, R}}, {{R, R}, {R, R}}},
      {{{S0, P}, {S0, R}}, {{S0, R}, {S0, R}}},
      {{{R, P}, {R, S1}}, {{R, S1}, {R, R}}},
      {{{P, P}, {S0, P}, {S0, R}}, {{S0, R}, {R, R}}},
      {{{P, P}, {R, P}, {R, R}}, {{R, R}, {R, R}}},
      {{{R, S1}, {R, S1}}, {{P, S1}, {R, S1}}},
  };
}

double bytes(const Shape& shape) { return static_cast<double>(numel(shape) * size_of(DType::F32)); }

// Whole numbers from 0 to 9, so that sums are exact in any order.
Tensor digits(Backend& backend, const std::string& name, const Shape& shape) {
  const Rng rng(3, name);
  std::vector<float> x(numel(shape));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(rng.bits(i) % 10);
  return backend.from_host(x, shape);
}

Tensor cut_out(Backend& backend, const Tensor& whole, const Box& box) {
  Tensor part = backend.clone(whole);
  for (int64_t d = 0; d < whole.rank(); ++d) part = backend.slice(part, d, box.offset[d], box.size[d]);
  return part;
}

// A tensor that every rank knows whole, and this rank's part of it. Over the Partial axes each rank has a term of its
// own.
struct Example {
  DTensor parts;
  Tensor whole;
};

Example example(const DeviceMesh& mesh, const Placements& placements, const Shape& shape, const std::string& name) {
  int64_t terms = 1, my_term = 0;
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
    if (!is_partial(placements[axis])) continue;
    terms *= mesh.size(axis);
    my_term = my_term * mesh.size(axis) + mesh.coordinate(axis);
  }
  Backend& backend = mesh.backend();
  Tensor whole = backend.zeros(shape), mine;
  for (int64_t t = 0; t < terms; ++t) {
    Tensor term = digits(backend, cat(name, t), shape);
    backend.add(whole, term);
    if (t == my_term) mine = cut_out(backend, term, local_box(mesh, placements, shape));
  }
  return {DTensor(std::move(mine), {mesh, placements, shape}), std::move(whole)};
}

// The way that a row takes as words: "S(0) → R", "[S(0),R] → [R,R]".
std::string words(const Placements& placements) {
  return placements.size() == 1 ? show(placements[0]) : show(placements);
}

void require_equal(const Traffic& measured, const Traffic& formula) {
  require(measured.all().size() == formula.all().size(), "sent ", measured.all().size(),
          " kinds of collectives, the formula says ", formula.all().size());
  for (const auto& [key, sent] : formula.all()) {
    const Sent seen = measured.of(key.second, key.first);
    require(seen.calls == sent.calls && std::abs(seen.bytes - sent.bytes) <= 1e-9 * sent.bytes, "sent ", seen.calls,
            " ", name_of(key.second), " of ", show_bytes(seen.bytes), " bytes, the formula says ", sent.calls, " of ",
            show_bytes(sent.bytes));
  }
}

}  // namespace

std::vector<Transition> transitions(int64_t axes) {
  require_shared(axes == 1 || axes == 2, "there is no table for a mesh of ", axes, " axes");
  return axes == 1 ? on_one_axis() : on_two_axes();
}

Cost cost_of(const DeviceMesh& mesh, const Shape& shape, const Path& path) {
  Cost cost;
  bool slices = false;
  for (size_t step = 1; step < path.size(); ++step)
    for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
      const Placement from = path[step - 1][axis], to = path[step][axis];
      const int64_t ranks = mesh.size(axis);
      if (from == to || ranks == 1) continue;
      Placements others = path[step];
      others[axis] = R;
      const Shape across = local_box(mesh, others, shape).size;  // what the ranks of this axis hold together
      const double share = (ranks - 1.0) / ranks, n = bytes(across);
      const auto send = [&](Op op, double sent) {
        cost.sent.add(op, mesh.name(axis), {1, sent, 0});
        cost.collectives +=
            cat(cost.collectives.empty() ? "" : ", ", name_of(op), mesh.dims() > 1 ? " " + mesh.name(axis) : "");
      };
      const Shard *source = as_shard(from), *target = as_shard(to);
      if (is_partial(from)) {
        target ? send(Op::ReduceScatter, share * n) : send(Op::AllReduce, 2 * share * n);
      } else if (!source) {
        slices = true;
      } else if (!target || source->dim == target->dim) {
        send(Op::AllGather, share * n);
      } else {  // all of my part but what lies in my new part too
        Shape mine = across;
        mine[source->dim] = chunk(mine[source->dim], ranks, mesh.coordinate(axis), source->block).size;
        Shape kept = mine;
        kept[target->dim] = chunk(kept[target->dim], ranks, mesh.coordinate(axis), target->block).size;
        send(Op::AllToAll, bytes(mine) - bytes(kept));
      }
    }
  if (cost.collectives.empty()) cost.collectives = slices ? "own slice" : "nothing";
  return cost;
}

std::string run_transitions(Session& session, const DeviceMesh& mesh, Traffic& traffic, const Shape& shape) {
  Table table({"from → to", "gradient", "|", "forward", "backward", "|", "sent: measured", "formula"});
  const auto run = [&](const Path& path, const std::string& name) {
    const Example x = example(mesh, path.front(), shape, name);
    const Cost formula = cost_of(mesh, shape, path);
    traffic.clear();
    const DTensor y = x.parts.redistribute(path.back());
    const Traffic measured = traffic;
    together(session.world(), [&] {
      Backend& backend = mesh.backend();
      const Tensor expected = cut_out(backend, x.whole, local_box(mesh, path.back(), shape));
      const std::string what = cat(words(path.front()), " → ", words(path.back()), " on ", mesh.show(), ": ");
      require(y.local().shape() == expected.shape() && backend.to_host(y.local()) == backend.to_host(expected), what,
              "other numbers than one rank's");
      try {
        require_equal(measured, formula.sent);
      } catch (const Error& error) {
        fail(what + error.what());
      }
    });
    return std::pair(formula.collectives, std::pair(measured.total().bytes, formula.sent.total().bytes));
  };
  for (const auto& [forward, backward] : transitions(mesh.dims())) {
    const auto [there, sent_there] = run(forward, "value");
    const auto [back, sent_back] = run(backward, "gradient");
    table.row(cat(words(forward.front()), " → ", words(forward.back())), words(backward.front()), there, back,
              cat(show_bytes(sent_there.first), " + ", show_bytes(sent_back.first)),
              cat(show_bytes(sent_there.second), " + ", show_bytes(sent_back.second)));
  }
  return table.str();
}

}  // namespace course
