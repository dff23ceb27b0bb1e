// --watch-gradients and --dump-tensors, on every mesh against one rank.
#include <cmath>
#include <filesystem>
#include <limits>

#include "chapters/09_llama/gradient_watch.hpp"
#include "chapters/09_llama/non_finite.hpp"
#include "chapters/09_llama/tensor_dump.hpp"
#include "common/support/safetensors.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

namespace {

// Writes `value` at element 0 of what this rank owns of a parameter's gradient.
void poison(Parameter& p, float value) {
  Tensor& gradient = p.owned_gradient();
  auto values = backend().to_host(gradient);
  values[0] = value;
  backend().copy_in(gradient, values.data());
}

Parameter& named(const Parameters& parameters, const std::string& name) {
  for (Parameter* p : parameters)
    if (p->name() == name) return *p;
  throw Error("no parameter " + name);
}

}  // namespace

TEST_CASE("non-finite: the first place, and none") {
  CHECK_FALSE(first_non_finite(backend(), random("x", {3, 5})));
  CHECK_FALSE(first_non_finite(backend(), backend().empty({0, 5})));
  CHECK_FALSE(first_non_finite(backend(), make({70}, [](int64_t) { return 3e38F; })));  // large is not infinite
  for (const float bad : {NAN, INFINITY, -INFINITY})
    CHECK(first_non_finite(backend(), make({9}, [&](int64_t i) { return i == 4 || i == 7 ? bad : 1.0F; })) == 4);
  CHECK(index_in({2, 3, 4}, 17) == Shape{1, 1, 1});
}

TEST_CASE("watched gradients: norms of every mesh are those of one rank") {
  const Little little;
  const auto alone = world().split(world().rank(), 0, "alone");
  const auto serial = little.run(*alone, {1, 1});
  GradientWatch twin(serial->llama, *alone);
  serial->trainer->on_gradients([&](int64_t step) { CHECK_FALSE(twin.look(step)); });
  serial->trainer->step();
  for (const MeshSize& size : meshes_of(world().size()))
    for (const PlanChoice& choice : all_plans()) {
      CAPTURE(show(size, choice));
      const auto run = little.run(world(), size, choice);
      GradientWatch watch(run->llama, world());
      run->trainer->on_gradients([&](int64_t step) { CHECK_FALSE(watch.look(step)); });
      const StepResult r = run->trainer->step();
      CHECK(watch.norm() == Approx(r.grad_norm).epsilon(1e-9));
      const Parameters parameters = parameters_of(run->llama);
      for (size_t i = 0; i < parameters.size(); ++i) {
        CAPTURE(parameters[i]->name());
        CHECK(watch.norm(i) == Approx(twin.norm(i)).epsilon(1e-5));
      }
    }
}

TEST_CASE("watched gradients: a bad value in forward is named by its module, on every rank alike") {
  const Little little;
  for (const MeshSize& size : meshes_of(world().size())) {
    CAPTURE(show(size, {}));
    const auto run = little.run(world(), size);
    // Only the second layer's down projection: what comes before it is finite, on every rank.
    Parameter& p = named(run->optimizer->parameters(), "model.layers.1.mlp.down_proj.weight");
    std::vector<float> whole(numel(p.global()), 0.01F);
    whole[7] = INFINITY;
    p.fill(whole);
    GradientWatch watch(run->llama, world());
    bool found = false;
    run->trainer->on_gradients([&](int64_t step) { found = watch.look(step); });
    CHECK_THROWS_AS(run->trainer->step(), SharedError);
    CHECK(found);
    CHECK_THAT(watch.first_bad(), Catch::StartsWith("step 1: ") &&
                                      Catch::Contains("in forward, output of model.layers.1.mlp.down_proj on rank "));
    CHECK(watch.first_bad() == world().broadcast_text(watch.first_bad(), 0));
  }
}

TEST_CASE("watched gradients: a bad gradient is named by rank, parameter and global index") {
  const Little little;
  const int last = world().size() - 1;
  for (const MeshSize& size : meshes_of(world().size())) {
    CAPTURE(show(size, {}));
    const auto run = little.run(world(), size);
    Parameter& p = named(run->optimizer->parameters(), "lm_head.weight");
    GradientWatch watch(run->llama, world());
    run->trainer->on_gradients([&](int64_t step) {
      if (step == 2 && world().rank() == last) {
        poison(named(run->optimizer->parameters(), "model.layers.0.mlp.up_proj.weight"), NAN);  // later in backward
        poison(p, INFINITY);
      }
      CHECK(watch.look(step) == (step == 2));
    });
    run->trainer->step();
    CHECK_THROWS_AS(run->trainer->step(), SharedError);
    if (world().rank() == last)
      CHECK(watch.first_bad() ==
            cat("step 2: first value that is not finite: in backward, gradient of lm_head.weight on rank ", last, ", ",
                show(p.owned_box().offset), " of the global [61,22]: inf"));
    CHECK(watch.first_bad() == world().broadcast_text(watch.first_bad(), last));
  }
}

TEST_CASE("dumped tensors: whole, by global name, alike on every mesh") {
  const Little little;
  const auto alone = world().split(world().rank(), 0, "alone");
  const TestFolder mine;  // each rank's own; rank 0's is used
  const std::string folder = world().broadcast_text((mine.path / "dump").string(), 0);
  for (const MeshSize& size : meshes_of(world().size())) {
    CAPTURE(show(size, {}));
    if (world().rank() == 0) std::filesystem::remove_all(folder);
    world().barrier().wait();
    const auto run = little.run(world(), size), serial = little.run(*alone, {1, 1});
    TensorDump dump(folder, run->optimizer->parameters(), world(), false);
    run->trainer->on_gradients([&](int64_t) { dump.gradients(); });
    std::map<std::string, std::vector<float>> gradients;
    serial->trainer->on_gradients([&](int64_t) {
      for (Parameter* p : serial->optimizer->parameters())
        gradients[p->name()] = backend().to_host(p->owned_gradient());
    });
    const StepResult r = run->trainer->step();
    serial->trainer->step();
    dump.write(r.step, r.loss);
    if (world().rank() != 0) continue;
    const SafetensorsFile file(folder + "/step-00000001.safetensors");
    CHECK(file.read<double>("loss") == std::vector<double>{r.loss});
    CHECK(file.tensors().size() == 1 + 2 * serial->optimizer->parameters().size());
    for (Parameter* p : serial->optimizer->parameters()) {
      CAPTURE(p->name());
      CHECK(file.info("grad." + p->name()).shape == p->global());
      CHECK(differs(file.read<float>("grad." + p->name()), gradients[p->name()], p->global(), 1e-5) == "");
      CHECK(differs(file.read<float>("weight." + p->name()), backend().to_host(p->owned()), p->global(), 1e-3) == "");
    }
  }
  const auto run = little.run(world(), {world().size(), 1});
  CHECK_THROWS_WITH(TensorDump(folder, run->optimizer->parameters(), world(), false),
                    Catch::Contains("holds the steps of an earlier run"));
  CHECK_NOTHROW(TensorDump(folder, run->optimizer->parameters(), world(), true));
}

TEST_CASE("dumped tensors: a large model is refused") {
  Parameter large(backend(), "large", {20'001, 1000}, Init{Init::Constant, 0});
  const TestFolder folder;
  CHECK_THROWS_WITH(TensorDump(folder.path / "dump", {&large}, world(), false),
                    Catch::Contains("20001000 parameters is too large"));
}
