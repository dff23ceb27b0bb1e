// Hooks, names, and what is refused.
#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {
namespace {

using Catch::Matchers::Contains;

// Passes its input on, and writes down when it runs.
class Echo : public Module {
 public:
  explicit Echo(std::string& log) : Module(course::test::backend()), log_(log) {}
  std::string kind() const override { return "Echo"; }
  Parameter& add_scale() { return add_parameter("scale", {2}, {Init::Constant, 1}); }
  template <typename M>
  M& add_child(const std::string& name, std::unique_ptr<M> child) {
    return add(name, std::move(child));
  }

 private:
  DTensor run_forward(DTensor x) override { return log_ += "run ", x; }
  DTensor run_backward(DTensor dy) override { return log_ += "back ", dy; }
  std::string& log_;
};

Hooks logging(std::string& log, const std::string& name) {
  const auto say = [&log](const std::string& what) { return [&log, what](DTensor x) { return log += what + " ", x; }; };
  return {say(name + ">"), say(">" + name), say(name + "<"), say("<" + name)};
}

}  // namespace

TEST_CASE("the hook installed last is outermost, in both directions") {
  std::string log;
  Echo echo(log);
  echo.wrap(logging(log, "a"));
  echo.wrap({});  // empty ones are skipped
  echo.wrap(logging(log, "b"));
  echo.forward(random("x", {2}));
  CHECK(log == "b> a> run >a >b ");
  log.clear();
  echo.backward(random("dy", {2}));
  CHECK(log == "b< a< back <a <b ");
}

TEST_CASE("modules and parameters have the names of their paths, root first, then depth first") {
  std::string log;
  Echo root(log);
  auto& layer = root.add_child("layer", std::make_unique<Echo>(log));
  Linear& up = layer.add_child("up", std::make_unique<Linear>(backend(), 3, 2, true));
  layer.add_child("down", std::make_unique<Linear>(backend(), 2, 3));
  root.add_child("table", std::make_unique<Embedding>(backend(), 5, 2));
  root.add_scale();

  std::string modules, parameters;
  for (const auto& [path, module] : named_modules(root)) modules += path + ":" + module->kind() + " ";
  CHECK(modules == ":Echo layer:Echo layer.up:Linear layer.down:Linear table:Embedding ");
  for (const Parameter* p : parameters_of(layer)) parameters += p->name() + " ";
  CHECK(parameters == "up.weight up.bias down.weight ");
  parameters.clear();
  for (const Parameter* p : parameters_of(root)) parameters += p->name() + " ";
  CHECK(parameters == "scale layer.up.weight layer.up.bias layer.down.weight table.weight ");

  clear_gradients(layer);  // asking a part takes no name away from the whole
  CHECK(up.weight.name() == "layer.up.weight");
  CHECK(up.bias->name() == "layer.up.bias");

  root.set_training(false);
  CHECK_FALSE(up.training());
}

TEST_CASE("gradients add up over backwards until they are cleared") {
  Linear linear(backend(), 3, 2, true);
  initialize(linear, 5);
  const Tensor x = random("x", {4, 3}), dy = random("dy", {4, 2});
  const Expected once = run_serial(linear, x, dy);
  linear.forward(backend().clone(x));
  linear.backward(backend().clone(dy));
  for (Parameter* p : parameters_of(linear)) {
    Tensor twice = backend().clone(once.gradients.at(p->name()));
    backend().scale(twice, 2);
    CHECK(differs(p->gradient(), twice, 1e-6) == "");
  }
  clear_gradients(linear);
  CHECK_FALSE(linear.weight.has_gradient());
}

TEST_CASE("backward wants a forward of its own, in training") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Tensor x = random("x", {4, 3}), dy = random("dy", {4, 2});
  const auto again = [&](bool styled) {
    Linear linear(backend(), 3, 2);
    if (styled) ColwiseParallel().output(Replicate()).apply(linear, tp);
    initialize(linear, 5);
    CHECK_THROWS_WITH(linear.backward(backend().clone(dy)), Contains("backward without a forward"));
    linear.forward(backend().clone(x));
    linear.backward(backend().clone(dy));
    CHECK_THROWS_WITH(linear.backward(backend().clone(dy)), Contains("backward without a forward"));
    linear.set_training(false);
    linear.forward(backend().clone(x));
    CHECK_THROWS_WITH(linear.backward(backend().clone(dy)), Contains("backward without a forward"));
  };
  again(false);
  again(true);
  Embedding table(backend(), 5, 2);
  initialize(table, 5);
  CHECK_THROWS_WITH(table.backward(backend().clone(dy)), Contains("backward without a forward"));
}

TEST_CASE("a style is refused on a module that has one, on a wrong kind, and on a mesh that is not 1-D") {
  const int P = world().size();
  const DeviceMesh tp(world(), backend(), {{"tp", P}});
  const DeviceMesh plane(world(), backend(), {{"dp", 1}, {"tp", P}});

  Linear linear(backend(), 6, 4);
  CHECK_THROWS_WITH(ColwiseParallel().apply(linear, plane),
                    Contains("takes a mesh of one axis, not dp 1 × tp") && Contains("pass mesh[\"tp\"]"));
  CHECK_FALSE(linear.styled());
  ColwiseParallel().apply(linear, plane["tp"]);
  CHECK(linear.style() == "ColwiseParallel(R → S(-1))");
  CHECK_THROWS_AS(RowwiseParallel().apply(linear, tp), SharedError);
  CHECK_THROWS_WITH(RowwiseParallel().apply(linear, tp),
                    Contains("styled twice: ColwiseParallel(R → S(-1)), then RowwiseParallel(S(-1) → R)"));
  CHECK(is_replicate(linear.weight.placement("dp")));
  CHECK(linear.weight.placement("tp") == Placement(Shard(0)));  // the second style cut nothing
  CHECK(linear.weight.box().size == Shape{chunk(4, P, world().rank()).size, 6});

  std::string log;
  Echo echo(log);
  CHECK_THROWS_AS(ColwiseParallel().apply(echo, tp), SharedError);
  CHECK_THROWS_WITH(ColwiseParallel().apply(echo, tp), Contains("takes a Linear or an Embedding, not a Echo"));
  CHECK_THROWS_WITH(RowwiseParallel().apply(echo, tp), Contains("takes a Linear or an Embedding, not a Echo"));
  CHECK_FALSE(echo.styled());  // so that it can have another one

  Linear filled(backend(), 6, 4);
  initialize(filled, 1);
  CHECK_THROWS_WITH(ColwiseParallel().apply(filled, tp), Contains("a parameter is cut before it is filled"));
}

TEST_CASE("a block that does not divide is refused, by every rank alike") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  Linear columns(backend(), 6, 10), rows(backend(), 10, 6);
  CHECK_THROWS_AS(ColwiseParallel().block(4).apply(columns, tp), SharedError);
  CHECK_THROWS_WITH(ColwiseParallel().block(4).apply(columns, tp),
                    Contains("[10,6] cannot be cut in dim 0 between blocks of 4"));
  CHECK_THROWS_WITH(RowwiseParallel().block(4).apply(rows, tp),
                    Contains("[6,10] cannot be cut in dim 1 between blocks of 4"));
  Embedding table(backend(), 10, 6);
  CHECK_THROWS_WITH(RowwiseParallel().block(4).apply(table, tp), Contains("dim 0"));
  CHECK_THROWS_WITH(ColwiseParallel().block(0).apply(table, tp), Contains("dim 1"));
}

TEST_CASE("a tensor on another mesh than the style's is refused") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}}),
      other(world(), backend(), {{"dp", world().size()}});
  Linear linear(backend(), 3, 2);
  ColwiseParallel().apply(linear, tp);
  initialize(linear, 5);
  CHECK_THROWS_WITH(linear.forward(DTensor::from_local(random("x", {4, 3}), other, {Replicate()})),
                    Contains("[4,3] as [R] on dp") && Contains("came to a style on tp"));
}

}  // namespace course::test
