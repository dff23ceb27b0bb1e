#include "chapters/05_sharded_mlp/mlp.hpp"

#include <cmath>

#include "chapters/01_column_row_split/split.hpp"
#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/05_sharded_mlp/sgd.hpp"
#include "tests/support/cases.hpp"

namespace course::test {
namespace {

DeviceMesh tp_mesh(Comm& comm = world()) { return DeviceMesh(comm, backend(), {{"tp", comm.size()}}); }

// A way to cut an MLP: the styles of what comes first and what comes last, how x and y lie outside.
struct Way {
  std::string name;
  ColwiseParallel column;
  RowwiseParallel row;
  ModuleCheck check;
};

// The forms of column, then row, for tensors whose rows of tokens are dim `dim`. Slices may be uneven.
std::vector<Way> ways(int64_t dim, double tolerance = 1e-5) {
  const Placement slice = Shard(dim);
  const RowwiseParallel scattered = RowwiseParallel().output(slice);
  return {
      {"x plain", {}, {}, {.tolerance = tolerance}},
      {"x shared", {}, {}, {.with_layout = true, .input_gradient = Partial(), .tolerance = tolerance}},
      {"x shared, y in slices",
       {},
       scattered,
       {.with_layout = true, .output = slice, .input_gradient = Partial(), .tolerance = tolerance}},
      {"x and y in slices",
       ColwiseParallel().input(slice),
       scattered,
       {.input = slice, .with_layout = true, .output = slice, .tolerance = tolerance}},
  };
}

void cut(GeluMlp& mlp, const DeviceMesh& tp, const Way& way) {
  way.column.apply(mlp.fc1, tp);
  way.row.apply(mlp.fc2, tp);
}

void cut(SwiGluMlp& mlp, const DeviceMesh& tp, const Way& way) {
  way.column.apply(mlp.gate_proj, tp);
  way.column.apply(mlp.up_proj, tp);
  way.row.apply(mlp.down_proj, tp);
}

// The counter-example.
void cut_row_column(GeluMlp& mlp, const DeviceMesh& tp) {
  RowwiseParallel().input(Replicate()).apply(mlp.fc1, tp);
  ColwiseParallel().output(Replicate()).apply(mlp.fc2, tp);
}

Gelu kind_of(const Golden& golden) { return golden.text("approximate") == "tanh" ? Gelu::Tanh : Gelu::Exact; }

// Even, uneven, and fewer features or tokens than ranks.
struct Sizes {
  int64_t B, S, E, I;
};
const Sizes all_sizes[] = {{2, 4, 6, 12}, {3, 5, 7, 11}, {5, 1, 4, 2}, {1, 3, 2, 1}, {2, 7, 5, 26}};

std::string shown(const Sizes& s) {
  return cat("B ", s.B, ", S ", s.S, ", E ", s.E, ", I ", s.I, " on rank ", world().rank(), " of ", world().size());
}

// Groups of `size` ranks; the last may be short.
std::unique_ptr<Comm> groups_of(int size) { return world().split(world().rank() / size, world().rank(), "tp"); }

}  // namespace

TEST_CASE("GeLU MLP: PyTorch's numbers, serial and cut", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("gelu_mlp__")) {
    const Golden golden(path);
    const Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout");
    const auto make = [&] {
      return std::make_unique<GeluMlp>(backend(), golden.integer("hidden_size"), golden.integer("intermediate_size"),
                                       kind_of(golden));
    };
    {
      INFO(golden.name() << ", serial");
      const auto mlp = make();
      fill_from(*mlp, golden);
      check_module(expected_of(golden), *mlp, tp, x, dy, {.tolerance = golden_tolerance(golden)});
    }
    for (const Way& way : ways(x.rank() - 2, golden_tolerance(golden))) {
      INFO(golden.name() << ", " << way.name);
      const auto mlp = make();
      cut(*mlp, tp, way);
      fill_from(*mlp, golden);
      check_module(expected_of(golden), *mlp, tp, x, dy, way.check);
    }
    INFO(golden.name() << ", row, then column");
    const auto mlp = make();
    cut_row_column(*mlp, tp);
    fill_from(*mlp, golden);
    check_module(expected_of(golden), *mlp, tp, x, dy, {.tolerance = golden_tolerance(golden)});
  }
}

TEST_CASE("SwiGLU MLP: PyTorch's numbers, serial and cut", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("swiglu_mlp__")) {
    const Golden golden(path);
    const Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout");
    const auto make = [&] {
      return std::make_unique<SwiGluMlp>(backend(), golden.integer("hidden_size"), golden.integer("intermediate_size"));
    };
    {
      INFO(golden.name() << ", serial");
      const auto mlp = make();
      fill_from(*mlp, golden);
      check_module(expected_of(golden), *mlp, tp, x, dy, {.tolerance = golden_tolerance(golden)});
    }
    for (const Way& way : ways(x.rank() - 2, golden_tolerance(golden))) {
      INFO(golden.name() << ", " << way.name);
      const auto mlp = make();
      cut(*mlp, tp, way);
      fill_from(*mlp, golden);
      check_module(expected_of(golden), *mlp, tp, x, dy, way.check);
    }
  }
}

TEST_CASE("a cut MLP equals its serial self: output, every gradient, parameters after three steps") {
  const DeviceMesh tp = tp_mesh();
  for (const Sizes& s : all_sizes) {
    const Shape shape = {s.B, s.S, s.E};
    const Tensor x = random("x", shape), dy = random("dy", shape);
    const auto compare = [&](auto& serial, auto& sharded, const ModuleCheck& how) {
      initialize(serial, 11), initialize(sharded, 11);
      check_module(serial, sharded, tp, x, dy, how);
      check_steps(serial, sharded, tp, shape, [&](const Tensor& x_step, const Tensor& dy_step) {
        DTensor in = part_of(x_step, tp, how.input);
        if (how.with_layout) in = DTensor::from_local(in, tp, {how.input}, shape);
        sharded.forward(std::move(in));
        sharded.backward(part_of(dy_step, tp, how.output));
      });
    };
    for (const Way& way : ways(1)) {
      for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
        INFO(shown(s) << ": GeLU " << (kind == Gelu::Tanh ? "tanh" : "erf") << ", " << way.name);
        GeluMlp serial(backend(), s.E, s.I, kind), sharded(backend(), s.E, s.I, kind);
        cut(sharded, tp, way);
        compare(serial, sharded, way.check);
      }
      INFO(shown(s) << ": SwiGLU, " << way.name);
      SwiGluMlp serial(backend(), s.E, s.I), sharded(backend(), s.E, s.I);
      cut(sharded, tp, way);
      compare(serial, sharded, way.check);
    }
    INFO(shown(s) << ": GeLU, row, then column");
    GeluMlp serial(backend(), s.E, s.I), sharded(backend(), s.E, s.I);
    cut_row_column(sharded, tp);
    compare(serial, sharded, {});
  }
}

namespace {

// Calls of each collective, and bytes of a ring, that one direction should send.
struct Expect {
  int64_t all_reduces = 0, all_gathers = 0, reduce_scatters = 0;
  double bytes = 0;
};

void check_sent(const char* direction, const Traffic& traffic, const Expect& expect) {
  INFO(direction);
  const int64_t some = world().size() > 1 ? 1 : 0;  // a group of one sends nothing
  CHECK(traffic.count(Op::AllReduce) == some * expect.all_reduces);
  CHECK(traffic.count(Op::AllGather) == some * expect.all_gathers);
  CHECK(traffic.count(Op::ReduceScatter) == some * expect.reduce_scatters);
  CHECK(traffic.total().calls == some * (expect.all_reduces + expect.all_gathers + expect.reduce_scatters));
  CHECK(traffic.total().bytes == Approx(some * expect.bytes));
}

// Forward and backward of a module whose x and dy lie as `outside`, wired by the pair where there is one.
void check_traffic(Module& module, const DeviceMesh& tp, Traffic& traffic, const Shape& shape, const Placement& outside,
                   const ConjugatePair* by_hand, const Expect& forward, const Expect& backward) {
  initialize(module, 11);
  const Tensor x = part_of(random("x", shape), tp, outside), dy = part_of(random("dy", shape), tp, outside);
  traffic.clear();
  DTensor in = backend().clone(x);
  if (by_hand) in = DTensor::from_local(by_hand->forward(backend(), tp.comm(), x, shape), tp, {Replicate()});
  module.forward(std::move(in));
  check_sent("forward", traffic, forward);
  traffic.clear();
  const DTensor dx = module.backward(backend().clone(dy));
  if (by_hand) CHECK(by_hand->backward(backend(), tp.comm(), dx.local(), shape).shape() == x.shape());
  check_sent("backward", traffic, backward);
}

}  // namespace

TEST_CASE("what an MLP sends: one all-reduce a direction for two matmuls") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const double share = (world().size() - 1.0) / world().size();
  for (const Sizes& s : all_sizes) {
    INFO(shown(s));
    const Shape shape = {s.B, s.S, s.E};
    const double outer = share * 4 * s.B * s.S * s.E, inner = share * 4 * s.B * s.S * s.I;
    const auto sent = [&](const char* name, auto mlp, const Way& way, const Placement& outside,
                          const ConjugatePair* by_hand, const Expect& forward, const Expect& backward) {
      INFO(name);
      cut(*mlp, tp, way);
      check_traffic(*mlp, tp, traffic, shape, outside, by_hand, forward, backward);
    };
    const auto gelu = [&] { return std::make_unique<GeluMlp>(backend(), s.E, s.I); };
    const auto swiglu = [&] { return std::make_unique<SwiGluMlp>(backend(), s.E, s.I); };
    const Way plain = ways(1)[0], sliced = ways(1)[2];
    const Expect one = {.all_reduces = 1, .bytes = 2 * outer}, two = {.all_reduces = 2, .bytes = 4 * outer};
    const Expect slices = {.all_gathers = 1, .reduce_scatters = 1, .bytes = 2 * outer};
    sent("GeLU, plain", gelu(), plain, Replicate(), nullptr, one, one);
    sent("GeLU, by hand", gelu(), plain, Replicate(), &f, one, one);
    sent("GeLU, slices", gelu(), sliced, Shard(1), &gather, slices, slices);
    sent("SwiGLU, plain", swiglu(), plain, Replicate(), nullptr, one, two);
    sent("SwiGLU, shared", swiglu(), plain, Replicate(), &f, one, one);
    sent("SwiGLU, slices", swiglu(), sliced, Shard(1), &gather, slices, slices);

    INFO("GeLU, row, then column");
    GeluMlp mlp(backend(), s.E, s.I);
    cut_row_column(mlp, tp);
    const Expect dear = {.all_reduces = 1, .all_gathers = 1, .bytes = 2 * inner + outer};
    check_traffic(mlp, tp, traffic, shape, Replicate(), nullptr, dear, dear);
  }
}

TEST_CASE("gate and up are each cut: a rank holds the same features of both (B52)") {
  const auto given = the_case("B52");
  const int ranks = given["input"]["tp"];
  const auto group = groups_of(ranks);
  const DeviceMesh tp = tp_mesh(*group);
  const auto gate = given["input"]["gate"].get<std::vector<float>>(),
             up = given["input"]["up"].get<std::vector<float>>();
  const int64_t F = given["input"]["F"], D = given["input"]["D"];

  SwiGluMlp mlp(backend(), D, F);
  cut(mlp, tp, ways(1)[0]);
  mlp.gate_proj.weight.fill(gate);
  mlp.up_proj.weight.fill(up);
  mlp.down_proj.weight.fill(std::vector<float>(F, 1));
  if (tp.size() == ranks) {
    const auto& right = given["right"]["ranks"][tp.coordinate()];
    CHECK(backend().to_host(mlp.gate_proj.weight.value()) == right["gate"].get<std::vector<float>>());
    CHECK(backend().to_host(mlp.up_proj.weight.value()) == right["up"].get<std::vector<float>>());
  }
  // Back together, in order, whatever the number of ranks: at 1, 2, 3 and 4 of them.
  const DeviceMesh all = tp_mesh();
  for (const DeviceMesh& mesh : {tp, all}) {
    SwiGluMlp again(backend(), D, F);
    cut(again, mesh, ways(1)[0]);
    again.gate_proj.weight.fill(gate), again.up_proj.weight.fill(up);
    const auto whole = [&](const Parameter& p) {
      return backend().to_host(DTensor(backend().clone(p.value()), {mesh, {p.placement("tp")}, p.global()}).full());
    };
    CHECK(whole(again.gate_proj.weight) == gate);
    CHECK(whole(again.up_proj.weight) == up);
  }
  // What they make of x = 1: silu(gate) meets the up of its own feature.
  double y = 0;
  for (size_t i = 0; i < gate.size(); ++i) y += gate[i] / (1 + std::exp(-double(gate[i]))) * up[i];
  CHECK(differs(mlp.forward(make({1, 1, 1}, [](int64_t) { return 1.0F; })).local(),
                make({1, 1, 1}, [&](int64_t) { return static_cast<float>(y); }), 1e-6) == "");

  // F = 3: each is cut 2 + 1, where the six rows of both would be cut 3 + 3.
  SwiGluMlp odd(backend(), D, 3);
  cut(odd, tp, ways(1)[0]);
  if (tp.size() == ranks) {
    const auto& right = given["right"]["F3"][tp.coordinate()];
    for (const Parameter* p : {&odd.gate_proj.weight, &odd.up_proj.weight}) {
      const Box& box = p->box();
      std::vector<std::string> held;
      for (int64_t row = box.offset[0]; row < box.offset[0] + box.size[0]; ++row)
        held.push_back(cat(p == &odd.gate_proj.weight ? "g" : "u", row));
      CHECK(held == right[p == &odd.gate_proj.weight ? "gate" : "up"].get<std::vector<std::string>>());
    }
    CHECK(odd.down_proj.weight.box().size == Shape{1, tp.coordinate() == 0 ? 2 : 1});
  }
}

TEST_CASE("an MLP of 11008 features on three ranks loses no column (B35 d)") {
  const auto given = the_case("B35");
  const int64_t I = given["input"]["ffn11008_tp3"][0], ranks = given["input"]["ffn11008_tp3"][1];
  CHECK(chunk_sizes(I, ranks) == given["right"]["ffn11008_tp3"].get<std::vector<int64_t>>());
  const DeviceMesh tp = tp_mesh();
  const int64_t E = 6;
  SwiGluMlp serial(backend(), E, I), sharded(backend(), E, I);
  cut(sharded, tp, ways(1)[0]);
  initialize(serial, 3), initialize(sharded, 3);
  if (tp.size() == ranks)
    for (const Parameter* p : {&sharded.gate_proj.weight, &sharded.up_proj.weight})
      CHECK(p->box().size[0] == given["right"]["ffn11008_tp3"][tp.coordinate()].get<int64_t>());
  const Tensor x = random("x", {2, 5, E}), dy = random("dy", {2, 5, E});
  // Rounding in a sum of 11008 terms is 1e-6 of y by itself; a column lost would be 1e-2.
  check_module(serial, sharded, tp, x, dy, {.tolerance = 3e-6});
  CHECK(largest_difference(backend(), sharded.forward(backend().clone(x)).local(),
                           serial.forward(backend().clone(x)).local()) <= 1e-6);
}

TEST_CASE("while not training an MLP keeps nothing, and has no backward") {
  const DeviceMesh tp = tp_mesh();
  const Shape shape = {2, 3, 4};
  GeluMlp gelu(backend(), 4, 6);
  SwiGluMlp swiglu(backend(), 4, 6);
  cut(gelu, tp, ways(1)[0]), cut(swiglu, tp, ways(1)[0]);
  for (Module* mlp : {static_cast<Module*>(&gelu), static_cast<Module*>(&swiglu)}) {
    initialize(*mlp, 1);
    const Tensor x = random("x", shape);
    const DTensor trained = mlp->forward(backend().clone(x));
    mlp->backward(random("dy", shape));
    mlp->set_training(false);
    const int64_t before = backend().memory_use().now;
    {
      const DTensor y = mlp->forward(backend().clone(x));
      CHECK(differs(y.local(), trained.local()) == "");
    }
    CHECK(backend().memory_use().now == before);
    mlp->set_training(true);
    CHECK_THROWS_WITH(mlp->backward(random("dy", shape)), Catch::Matchers::Contains("backward without a forward"));
  }
}

}  // namespace course::test
