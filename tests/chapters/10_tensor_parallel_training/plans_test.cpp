// The whole Llama under every plan: PyTorch's numbers, PyTorch's count of calls, and one all-reduce for all norms.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "chapters/09_llama/loss.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/step_traffic.hpp"
#include "tests/chapters/09_llama/golden_llama.hpp"
#include "tests/chapters/10_tensor_parallel_training/calls.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr PlanKind plans[] = {PlanKind::Basic, PlanKind::Sequence, PlanKind::Article};

struct Phases {
  Calls forward, backward, finish;
};

// The calls of one step of the model of comm_counts.json.
Phases step_calls(PlanKind plan, int64_t layers) {
  Traffic traffic;
  Recorder recorded(world(), traffic);
  const DeviceMesh mesh(recorded, backend(), {{"tp", world().size()}});
  LlamaConfig c{96, 64, 128, layers, 8, 4};
  Llama llama(backend(), c);
  parallelize_module(llama, mesh, llama_plan(plan, c.attention(), false));
  initialize(llama, 1);
  CrossEntropy loss(backend(), -100);
  Phases phases;
  const DTensor logits = llama.forward(backend().from_host(random_ids("ids", 32, 96), {2, 16}));
  loss.forward(logits, backend().from_host(random_ids("targets", 32, 96), {2, 16}));
  phases.forward = calls_of(traffic);
  traffic.clear();
  llama.backward(loss.backward(32));
  phases.backward = calls_of(traffic);
  traffic.clear();
  finish_gradients(parameters_of(llama), mesh);
  phases.finish = calls_of(traffic);
  return phases;
}

}  // namespace

TEST_CASE("llama under every plan: logits, loss and every gradient's part", "[golden]") {
  for (const auto& path : golden_files("llama__"))
    for (const PlanKind plan : plans) {
      const Golden golden(path);
      INFO(golden.name() << ", plan " << name_of(plan));
      const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
      Llama llama(backend(), config_of(golden));
      parallelize_module(llama, tp, llama_plan(plan, llama.config().attention(), false));
      CrossEntropy loss(backend(), pad_of(golden));
      check_golden_llama(golden, llama, loss,
                         {.finish = [&](const Parameters& p) { finish_gradients(p, tp); },
                          .norm = [&](const Parameters& p) { return gradient_norm(p, tp, world()); }},
                         2);
    }
}

TEST_CASE("never more calls than PyTorch, and the norms' gradients in one", "[golden]") {
  const int ranks = world().size();
  std::ifstream in(golden_dir() + "/comm_counts.json");
  const auto counts = nlohmann::json::parse(in);
  const std::map<std::string, PlanKind> names = {
      {"basic", PlanKind::Basic}, {"official", PlanKind::Sequence}, {"article", PlanKind::Article}};
  int64_t compared = 0;
  for (const auto& [name, plan] : names) {
    const Phases one = step_calls(plan, 1), three = step_calls(plan, 3);
    if (ranks == 1) {
      for (const auto& [op, n] : three.forward) CHECK(n == 0);
      continue;
    }
    for (const auto& theirs : counts["per_layer"]) {
      if (theirs["plan"] != name) continue;
      for (const auto& [op, n] : one.forward) {
        INFO(name << ", a layer, " << op);
        CHECK((three.forward.at(op) - n) / 2 <= theirs["forward"].value(op, 0));
        CHECK((three.backward.at(op) - one.backward.at(op)) / 2 <= theirs["backward"].value(op, 0));
        ++compared;
      }
    }
    for (const auto& theirs : counts["outside_layers"]) {
      if (theirs["plan"] != name) continue;
      for (const auto& [op, n] : one.forward) {
        INFO(name << ", outside the layers, " << op);
        CHECK(n - (three.forward.at(op) - n) / 2 <= theirs["forward"].value(op, 0));
        CHECK(one.backward.at(op) - (three.backward.at(op) - one.backward.at(op)) / 2 <=
              theirs["backward"].value(op, 0));
      }
    }
    if (plan == PlanKind::Basic) CHECK((three.backward.at("all_reduce") - one.backward.at("all_reduce")) / 2 == 2);
    CHECK(three.finish.at("all_reduce") == (plan == PlanKind::Basic ? 0 : 1));
  }
  CHECK((compared >= 9 || ranks == 1));
}

TEST_CASE("a formula that is wrong is said") {
  Traffic traffic;
  traffic.add(Op::AllReduce, "tp", {2, 100, 0});
  std::ostringstream out;
  CHECK_NOTHROW(show_traffic(out, traffic, {{"tp", Op::AllReduce, 2, 100}}));
  CHECK_THROWS_WITH(show_traffic(out, traffic, {{"tp", Op::AllReduce, 2, 101}}), Catch::Contains("tp all-reduce"));
  CHECK_THROWS_AS(show_traffic(out, traffic, {}), Error);
}
