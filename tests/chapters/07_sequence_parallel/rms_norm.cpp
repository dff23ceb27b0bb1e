// RmsNorm, serial and under SequenceParallel.
#include "chapters/07_sequence_parallel/rms_norm.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/07_sequence_parallel/sequence_style.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/07_sequence_parallel/layers.hpp"
#include "tests/support/cases.hpp"

namespace course::test {
namespace {

// Groups of `size` ranks; the last may be short.
std::unique_ptr<Comm> groups_of(int size) { return world().split(world().rank() / size, world().rank(), "tp"); }

}  // namespace

TEST_CASE("RMSNorm: PyTorch's numbers, serial and in slices of every dim", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("rmsnorm__")) {
    const Golden golden(path);
    const double tolerance = golden_tolerance(golden);
    const Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout");
    Shape shape = golden.integers("batch");
    shape.push_back(golden.integer("hidden_size"));
    CHECK(x.shape() == shape);
    const auto make = [&] {
      return std::make_unique<RmsNorm>(backend(), golden.integer("hidden_size"), golden.number("rms_norm_eps"));
    };
    {
      INFO(golden.name() << ", serial");
      const auto norm = make();
      fill_from(*norm, golden);
      check_module(expected_of(golden), *norm, tp, x, dy, {.tolerance = tolerance});
    }
    for (int64_t dim = 0; dim + 1 < x.rank(); ++dim)
      for (const Placement& input : {Placement(Shard(dim)), Placement(Replicate())}) {
        INFO(golden.name() << ", slices of dim " << dim << ", x comes as " << show(input));
        const auto norm = make();
        SequenceParallel(dim).apply(*norm, tp);
        fill_from(*norm, golden);
        check_module(expected_of(golden), *norm, tp, x, dy,
                     {.input = input, .with_layout = true, .output = Shard(dim), .tolerance = tolerance});
      }
  }
}

TEST_CASE("RMSNorm's gradients are the slopes of its output") {
  RmsNorm norm(backend(), 5, 1e-3);
  norm.weight.fill(backend().to_host(random("weight", {5})));
  check_gradients_numerically(norm, random("x", {2, 3, 5}), random("dy", {2, 3, 5}));
}

TEST_CASE("a norm in slices equals its serial self, parameters after three steps too") {
  const DeviceMesh tp = tp_mesh();
  for (const Shape& shape : {Shape{3, 8, 5}, {2, 7, 6}, {3, 3, 4}, {5, 1, 3}}) {
    INFO(show(shape) << " on rank " << world().rank() << " of " << world().size());
    RmsNorm serial(backend(), shape[2]), sharded(backend(), shape[2]);
    SequenceParallel().apply(sharded, tp);
    initialize(serial, 1), initialize(sharded, 1);
    CHECK(show(sharded.weight.placement("tp")) == "R");
    CHECK(show(sharded.weight.grad_placement("tp")) == "P");
    check_module(serial, sharded, tp, random("x", shape), random("dy", shape), stream(Shard(1)));
    check_steps(serial, sharded, tp, shape, [&](const Tensor& x, const Tensor& dy) {
      sharded.forward(part_of_stream(x, tp, Shard(1)));
      sharded.backward(part_of_stream(dy, tp, Shard(1)));
      sum_partial_gradients(sharded, tp);
    });
  }
}

TEST_CASE("a plain input is an even slice, and its gradient comes back plain") {
  const DeviceMesh tp = tp_mesh();
  const Shape shape = {2, 12, 5};
  RmsNorm serial(backend(), 5), local(backend(), 5), placed(backend(), 5);
  SequenceParallel().use_local_output(true).apply(local, tp);
  SequenceParallel().apply(placed, tp);
  for (RmsNorm* norm : {&serial, &local, &placed}) initialize(*norm, 1);
  const ModuleCheck plain = {.input = Shard(1), .output = Shard(1)};
  check_module(serial, local, tp, random("x", shape), random("dy", shape), plain);
  check_module(serial, placed, tp, random("x", shape), random("dy", shape), plain);
  CHECK(!local.forward(part_of(random("x", shape), tp, Shard(1))).has_layout());
  CHECK(placed.forward(part_of(random("x", shape), tp, Shard(1))).global() == shape);
}

TEST_CASE("the gradient of a norm's weight is a sum over the ranks' positions (B01)", "[B01]") {
  const auto given = the_case("B01");
  const auto& input = given["input"];
  const int ranks = input["tp"];
  const auto group = groups_of(ranks);
  const DeviceMesh tp = tp_mesh(*group);
  const int64_t d = input["d"];
  const Shape shape = {input["B"], input["S"], d};
  RmsNorm norm(backend(), d, input["eps"]);
  SequenceParallel().apply(norm, tp);
  norm.weight.fill(std::vector<float>(d, input["w"].get<float>()));

  norm.forward(part_of_stream(backend().from_host(floats_of(input["X"]), shape), tp, Shard(1)));
  norm.backward(part_of_stream(backend().from_host(floats_of(input["dY"]), shape), tp, Shard(1)));
  const auto expect = [&](const nlohmann::json& values) {
    return backend().from_host(values.get<std::vector<float>>(), {d});
  };
  if (tp.size() == ranks)  // what each has alone is the known wrong value
    CHECK(differs(norm.weight.gradient(), expect(given["faulty"][cat("rank", tp.coordinate())]), 1e-6) == "");
  sum_partial_gradients(norm, tp);
  CHECK(differs(norm.weight.gradient(), expect(given["right"]["dW"]), 1e-6) == "");
  Tensor first = backend().clone(norm.weight.gradient());
  group->broadcast(first, 0).wait();
  CHECK(differs(norm.weight.gradient(), first) == "");  // the same bits on both
}

TEST_CASE("slices of a length that does not divide have their own sizes (B35 a)", "[B35]") {
  const auto given = the_case("B35");
  for (const std::string key : {"seq7_tp2", "seq3_tp4"}) {
    const int64_t S = given["input"][key][0];
    const int ranks = given["input"][key][1];
    INFO(key << " on rank " << world().rank() << " of " << world().size());
    const auto group = groups_of(ranks);
    const DeviceMesh tp = tp_mesh(*group);
    const Shape shape = {2, S, 5};
    RmsNorm serial(backend(), 5), norm(backend(), 5);
    SequenceParallel().apply(norm, tp);
    initialize(serial, 3), initialize(norm, 3);
    const DTensor y = norm.forward(part_of_stream(random("x", shape), tp, Shard(1)));
    CHECK(y.global() == shape);  // and not local × ranks
    if (tp.size() == ranks) CHECK(y.local().dim(1) == given["right"][key][tp.coordinate()].get<int64_t>());
    CHECK(differs(y.full(), serial.forward(random("x", shape)).local(), 1e-6) == "");
    check_module(serial, norm, tp, random("x", shape), random("dy", shape), stream(Shard(1), 1e-6));
  }
}

TEST_CASE("SequenceParallel sends nothing, as PyTorch's", "[golden]") {
  std::ifstream file(golden_dir() + "/comm_counts.json");
  const auto styles = nlohmann::json::parse(file).at("styles");
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  int walked = 0;
  for (const auto& entry : styles) {
    if (!entry.at("case").get<std::string>().starts_with("RMSNorm: ")) continue;
    ++walked;
    CHECK(entry.at("case") == "RMSNorm: SequenceParallel()");
    const auto calls_of = [&](const char* direction) {
      int64_t calls = 0;
      for (const auto& [name, count] : entry.at(direction).items()) calls += count.get<int64_t>();
      return calls;
    };
    RmsNorm norm(backend(), 5);
    SequenceParallel().apply(norm, tp);
    initialize(norm, 3);
    traffic.clear();
    norm.forward(part_of_stream(random("x", {2, 7, 5}), tp, Shard(1)));
    CHECK(traffic.total().calls <= calls_of("forward"));
    traffic.clear();
    norm.backward(part_of_stream(random("dy", {2, 7, 5}), tp, Shard(1)));
    CHECK(traffic.total().calls <= calls_of("backward"));
  }
  CHECK(walked > 0);
}

TEST_CASE("a norm refuses a gradient that lies otherwise than its input") {
  const DeviceMesh tp = tp_mesh();
  RmsNorm norm(backend(), 5);
  initialize(norm, 3);
  const Shape shape = {2, 4, 5};
  const auto as = [&](const Placement& p) {
    return DTensor::from_local(part_of(random("dy", shape), tp, p), tp, {p}, shape);
  };
  norm.forward(as(Replicate()));
  CHECK_THROWS_WITH(norm.backward(as(Partial())), Catch::Matchers::Contains("a redistribute is missing"));
  norm.forward(random("x", shape));
  CHECK_THROWS_WITH(norm.backward(as(Partial())), Catch::Matchers::Contains("a redistribute is missing"));
  norm.forward(as(Replicate()));
  CHECK(show(norm.backward(as(Replicate())).layout().placements) == "[R]");
  CHECK_THROWS_WITH(norm.backward(as(Replicate())), Catch::Matchers::Contains("backward without a forward"));
}

TEST_CASE("a norm without its style refuses a slice of the rows: nobody would sum its gradient") {
  if (world().size() == 1) return;
  const DeviceMesh tp = tp_mesh();
  RmsNorm norm(backend(), 5);
  initialize(norm, 3);
  const DTensor x = part_of_stream(random("x", {2, 7, 5}), tp, Shard(1));
  CHECK_THROWS_WITH(norm.forward(x), Catch::Matchers::Contains("style the norm with SequenceParallel"));
  norm.set_training(false);  // no gradient, no harm
  CHECK(norm.forward(x).global() == Shape{2, 7, 5});
}

TEST_CASE("while not training a norm keeps nothing") {
  RmsNorm norm(backend(), 5);
  initialize(norm, 3);
  norm.set_training(false);
  const Tensor x = random("x", {2, 4, 5});
  const int64_t before = backend().memory_use().now;
  { const DTensor y = norm.forward(backend().clone(x)); }
  CHECK(backend().memory_use().now == before);
  CHECK_THROWS_WITH(norm.backward(random("dy", {2, 4, 5})), Catch::Matchers::Contains("backward without a forward"));
}

TEST_CASE("SequenceParallel refuses what it cannot be right on") {
  const DeviceMesh tp = tp_mesh();
  Linear linear(backend(), 4, 6);
  CHECK_THROWS_WITH(SequenceParallel().apply(linear, tp), Catch::Matchers::Contains("takes an RmsNorm, not a Linear"));
  CHECK(!linear.styled());
  RmsNorm norm(backend(), 5);
  SequenceParallel().apply(norm, tp);
  CHECK_THROWS_WITH(SequenceParallel().apply(norm, tp), Catch::Matchers::Contains("styled twice"));
  RmsNorm other(backend(), 5);
  const DeviceMesh plane(world(), backend(), {{"dp", 1}, {"tp", world().size()}});
  CHECK_THROWS_WITH(SequenceParallel().apply(other, plane), Catch::Matchers::Contains("one axis"));
  initialize(other, 1);
  CHECK_THROWS_AS(SequenceParallel().apply(other, tp), Error);  // filled already
}

}  // namespace course::test
