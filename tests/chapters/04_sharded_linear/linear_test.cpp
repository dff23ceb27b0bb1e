// A Linear cut by columns and by rows, in every layout, against its serial self.
#include "chapters/04_sharded_linear/linear.hpp"

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/04_sharded_linear/layouts.hpp"
#include "tests/support/cases.hpp"

namespace course::test {
namespace {

struct Sizes {
  Shape rows;  // the leading dims of x
  int64_t in, out;
};
// Nothing divides; more ranks than features on either side; one number; no rows at all.
const Sizes all_sizes[] = {{{6}, 5, 7}, {{3, 5}, 7, 10}, {{2, 3, 4}, 8, 12}, {{5}, 2, 3}, {{3, 2}, 1, 1}, {{0}, 4, 6}};

Shape with_last(Shape rows, int64_t size) {
  rows.push_back(size);
  return rows;
}

}  // namespace

TEST_CASE("a Linear in every layout equals its serial self") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  for (const auto& [rows, in, out] : all_sizes)
    for (const bool bias : {false, true}) {
      const Tensor x = random(cat("x", in), with_last(rows, in)), dy = random(cat("dy", out), with_last(rows, out));
      Linear serial(backend(), in, out, bias);
      initialize(serial, 11);
      for (const bool colwise : {true, false})
        for (const Layouts& at : layouts(colwise ? Placement(Replicate()) : Shard(-1), colwise, x.shape(), tp.size())) {
          INFO((colwise ? "ColwiseParallel " : "RowwiseParallel ")
               << shown(at) << " x " << show(x.shape()) << " out " << out);
          Linear sharded(backend(), in, out, bias);
          if (colwise)
            ColwiseParallel()
                .input(at.style_input)
                .output(at.output)
                .use_local_output(at.local_output)
                .apply(sharded, tp);
          else
            RowwiseParallel()
                .input(at.style_input)
                .output(at.output)
                .use_local_output(at.local_output)
                .apply(sharded, tp);
          initialize(sharded, 11);
          check_module(serial, sharded, tp, x, dy, at.check);
        }
    }
}

TEST_CASE("defaults are PyTorch's: by columns R to S(-1), by rows S(-1) to R, without a layout") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Tensor x = random("x", {4, 3, 5}), dy = random("dy", {4, 3, 7});
  Linear serial(backend(), 5, 7, true), columns(backend(), 5, 7, true), rows(backend(), 5, 7, true);
  ColwiseParallel().apply(columns, tp);
  RowwiseParallel().apply(rows, tp);
  for (Module* m : std::initializer_list<Module*>{&serial, &columns, &rows}) initialize(*m, 3);
  check_module(serial, columns, tp, x, dy, {.output = Shard(-1)});
  check_module(serial, rows, tp, x, dy, {.input = Shard(-1)});
  CHECK_FALSE(columns.forward(backend().clone(x)).has_layout());
  CHECK_FALSE(rows.forward(part_of(x, tp, Shard(-1))).has_layout());
}

TEST_CASE("with use_local_output off the output says what the parts are together") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  Linear columns(backend(), 5, 7), rows(backend(), 5, 7);
  ColwiseParallel().use_local_output(false).apply(columns, tp);
  RowwiseParallel().output(Shard(1)).use_local_output(false).apply(rows, tp);
  initialize(columns, 3);
  initialize(rows, 3);
  const Tensor x = random("x", {4, 3, 5});
  CHECK(columns.forward(backend().clone(x)).layout() == Layout{tp, {Shard(2)}, {4, 3, 7}});
  CHECK(rows.forward(part_of(x, tp, Shard(-1))).layout() == Layout{tp, {Shard(1)}, {4, 3, 7}});
}

TEST_CASE("blocks stay whole") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Tensor x = random("x", {4, 5}), dy = random("dy", {4, 12});
  Linear serial(backend(), 5, 12, true), columns(backend(), 5, 12, true);
  ColwiseParallel().block(4).use_local_output(false).apply(columns, tp);
  CHECK(columns.style() == "ColwiseParallel(R → S(-1,/4))");
  CHECK(columns.weight.box().size[0] % 4 == 0);
  CHECK(columns.weight.box().size[0] == chunk(12, world().size(), world().rank(), 4).size);
  initialize(serial, 3);
  initialize(columns, 3);
  check_module(serial, columns, tp, x, dy, {.output = Shard(-1, 4)});

  Linear wide(backend(), 12, 5, true);
  initialize(wide, 3);
  for (const bool with_layout : {false, true})
    for (const Placement& input :
         {Placement(Shard(-1, 4)), Placement(Shard(-1))}) {  // the second is cut anew on its way in
      Linear rows(backend(), 12, 5, true);
      RowwiseParallel().block(4).input(input).apply(rows, tp);
      initialize(rows, 3);
      check_module(wide, rows, tp, dy, x, {.input = input, .with_layout = with_layout});
    }
}

TEST_CASE("finite differences of a Linear") {
  for (const bool bias : {false, true}) {
    Linear linear(backend(), 3, 4, bias);
    initialize(linear, 17);
    check_gradients_numerically(linear, random("x", {2, 5, 3}), random("dy", {2, 5, 4}));
  }
}

TEST_CASE("an input that comes in the wanted layout gets its gradient Partial: users add up, one reduction for all") {
  const int P = world().size();
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", P}});
  // q and k read one x
  Linear q0(backend(), 5, 6, true), k0(backend(), 5, 3), q(backend(), 5, 6, true), k(backend(), 5, 3);
  ColwiseParallel().apply(q, tp);
  ColwiseParallel().apply(k, tp);
  for (Module* m : std::initializer_list<Module*>{&q0, &k0, &q, &k}) initialize(*m, 3);
  const Tensor x = random("x", {4, 5}), dq = random("dq", {4, 6}), dk = random("dk", {4, 3});
  Expected by_q = run_serial(q0, x, dq);
  const Expected by_k = run_serial(k0, x, dk);
  backend().add(by_q.dx, by_k.dx);

  const DTensor shared = DTensor::from_local(backend().clone(x), tp, {Replicate()});
  q.forward(shared);
  k.forward(shared);
  traffic.clear();
  DTensor dx = q.backward(part_of(dq, tp, Shard(-1)));
  CHECK(show(dx.layout().placements) == "[P]");
  dx = add(backend(), std::move(dx), k.backward(part_of(dk, tp, Shard(-1))));
  CHECK(traffic.total().calls == 0);
  CHECK(differs(dx.redistribute({Replicate()}).local(), by_q.dx, 1e-5) == "");
  CHECK(traffic.count(Op::AllReduce) == (P > 1));

  // As plain tensors each reduces its own: right too, for one call more.
  q.forward(backend().clone(x));
  k.forward(backend().clone(x));
  traffic.clear();
  dx = add(backend(), q.backward(part_of(dq, tp, Shard(-1))), k.backward(part_of(dk, tp, Shard(-1))));
  CHECK(differs(dx.local(), by_q.dx, 1e-5) == "");
  CHECK(traffic.count(Op::AllReduce) == 2 * (P > 1));
}

TEST_CASE("a cut of the rows that is not even needs a layout: a plain part is taken for an even one") {
  const int P = world().size();
  const DeviceMesh tp(world(), backend(), {{"tp", P}});
  Linear linear(backend(), 4, 3);
  ColwiseParallel().input(Shard(1)).apply(linear, tp);
  initialize(linear, 3);
  const Tensor x = random("x", {2, 5, 4});
  const Tensor mine = part_of(x, tp, Shard(1));
  // Where the parts differ in size, what the ranks take for the whole would differ. Equal ones are all that a plain
  // part can be.
  const Tensor even = backend().slice(mine, 1, 0, std::min<int64_t>(1, mine.dim(1)));
  if (P < 4)
    CHECK(linear.forward(backend().clone(even)).local().shape() == Shape{2, P, chunk(3, P, tp.coordinate()).size});
  const DTensor y = linear.forward(DTensor::from_local(backend().clone(mine), tp, {Shard(1)}, x.shape()));
  CHECK(y.local().shape() == Shape{2, 5, chunk(3, P, tp.coordinate()).size});
}

TEST_CASE("an output that stays Partial: its gradient is wanted whole, and a plain one is taken so") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", world().size()}});
  const Tensor x = random("x", {4, 5}), dy = random("dy", {4, 3});
  Linear serial(backend(), 5, 3, true), rows(backend(), 5, 3, true);
  RowwiseParallel().output(Partial()).apply(rows, tp);
  initialize(serial, 3);
  initialize(rows, 3);
  const Expected expected = run_serial(serial, x, dy);
  Tensor sum = backend().clone(rows.forward(part_of(x, tp, Shard(-1))).local());
  CHECK(traffic.total().calls == 0);
  tp.comm().all_reduce(sum).wait();
  CHECK(differs(sum, expected.y, 1e-5) == "");
  traffic.clear();
  CHECK(differs(rows.backward(backend().clone(dy)).local(), part_of(expected.dx, tp, Shard(-1)), 1e-5) == "");
  CHECK(traffic.total().calls == 0);
}

TEST_CASE("a wrong number of features is refused with both") {
  Linear linear(backend(), 4, 3);
  initialize(linear, 3);
  CHECK_THROWS_WITH(linear.forward(random("x", {2, 5})),
                    Catch::Matchers::Contains("x has 5 features, the weight here takes 4"));
}

TEST_CASE("B51: by rows the bias is added once, by columns it is cut") {
  const int P = world().size();
  const DeviceMesh tp(world(), backend(), {{"tp", P}});
  const auto B51 = the_case("B51");
  const std::vector<float> W = floats_of(B51["input"]["w_out_in"]), b = floats_of(B51["input"]["b"]);
  const Tensor x = tensor_of(B51["input"]["x"]), y = tensor_of(B51["right"]["y"]);
  const auto with_bias = [&](const ParallelStyle& style) {
    auto linear = std::make_unique<Linear>(backend(), 4, 3, true);
    style.apply(*linear, tp);
    linear->weight.fill(W);
    linear->bias->fill(b);
    return linear;
  };
  const auto rows = with_bias(RowwiseParallel());
  CHECK(differs(rows->forward(part_of(x, tp, Shard(-1))).local(), y) == "");
  CHECK(backend().to_host(rows->bias->value()) == b);  // whole on every rank
  rows->backward(backend().from_host(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}));
  CHECK(backend().to_host(rows->bias->gradient()) ==
        std::vector<float>{5, 7, 9});  // and its gradient once, on every rank

  const auto slices = with_bias(RowwiseParallel().output(Shard(0)));
  CHECK(differs(slices->forward(part_of(x, tp, Shard(-1))).local(), part_of(y, tp, Shard(0))) == "");

  const auto columns = with_bias(ColwiseParallel().output(Replicate()));
  const Chunk mine = chunk(3, P, world().rank());
  CHECK(differs(columns->forward(backend().clone(x)).local(), y) == "");
  CHECK(backend().to_host(columns->bias->value()) ==
        std::vector<float>(b.begin() + mine.offset, b.begin() + mine.end()));
}

// Of the case's own count of ranks: ctest runs the cases tagged [6 ranks] on six.
TEST_CASE("B35 (b): 16 features by rows, batch 9, on 6 ranks", "[6 ranks]") {
  const auto B35 = the_case("B35");
  const int64_t in = B35["input"]["in16_tp6"][0], ranks = B35["input"]["in16_tp6"][1], out = 10, batch = 9;
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Shape whole = {batch, in};
  const Tensor x = random("x", whole), dy = random("dy", {batch, out});
  Linear serial(backend(), in, out, true), rows(backend(), in, out, true);
  RowwiseParallel().apply(rows, tp);
  initialize(serial, 35), initialize(rows, 35);
  if (tp.size() == ranks) CHECK(rows.weight.box().size[1] == B35["right"]["in16_tp6"][tp.coordinate()].get<int64_t>());
  const DTensor parts = DTensor::from_local(part_of(x, tp, Shard(1)), tp, {Shard(1)}, whole);
  CHECK(differs(parts.full(), x) == "");  // 16 columns, where local × ranks says 18
  check_module(serial, rows, tp, x, dy, {.input = Shard(1), .with_layout = true, .tolerance = 1e-6});
  check_module(serial, rows, tp, x, dy,
               {.input = Shard(1), .output = Replicate(), .tolerance = 1e-6});  // plain: this rank's own columns
}

TEST_CASE("after some steps of plain SGD the sharded parameters equal the serial ones") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const auto train = [](Module& module, const DeviceMesh& on, const Placement& input) {
    initialize(module, 23);
    for (int n = 0; n < 8; ++n) {
      const Tensor x = random(cat("x", n), {6, 5}), target = random(cat("target", n), {6, 7});
      Tensor dy = backend().clone(module.forward(part_of(x, on, input)).local());  // of Σ (y - target)² / 2
      backend().scale(dy, -1);
      backend().add(dy, target);
      backend().scale(dy, -1);
      clear_gradients(module);
      module.backward(std::move(dy));
      for (Parameter* p : parameters_of(module)) {
        Tensor step = backend().clone(p->gradient());
        backend().scale(step, -0.05F);
        backend().add(p->owned_to_write(), step);
      }
    }
  };
  const auto alone = world().split(world().rank(), 0, "alone");
  Linear serial(backend(), 5, 7, true), columns(backend(), 5, 7, true), rows(backend(), 5, 7, true);
  train(serial, DeviceMesh(*alone, backend(), {{"tp", 1}}), Replicate());
  ColwiseParallel().output(Replicate()).apply(columns, tp);
  train(columns, tp, Replicate());
  RowwiseParallel().apply(rows, tp);
  train(rows, tp, Shard(-1));
  const Parameters want = parameters_of(serial);
  for (Module* sharded : std::initializer_list<Module*>{&columns, &rows})
    for (size_t i = 0; i < want.size(); ++i) {
      const Parameter& p = *parameters_of(*sharded)[i];
      INFO(sharded->style() << " " << p.name());
      CHECK(differs(p.value(), part_of(want[i]->value(), p.box()), 1e-5) == "");
    }
  Linear untrained(backend(), 5, 7, true);
  initialize(untrained, 23);
  CHECK(differs(serial.weight.value(), untrained.weight.value(), 0.05) != "");  // the steps were steps
}

}  // namespace course::test
