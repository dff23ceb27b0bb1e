// The whole Llama with its loss on parts of the vocabulary: PyTorch's numbers, PyTorch's count of calls, and cases B05
// and B16 of tests/cases.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/11_loss_parallel/loss_parallel.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/09_llama/golden_llama.hpp"
#include "tests/chapters/10_tensor_parallel_training/calls.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

json read_json(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), "cannot read ", path);
  return json::parse(in);
}

DeviceMesh tp_mesh(Comm& comm = world()) { return DeviceMesh(comm, backend(), {{"tp", comm.size()}}); }

struct Phases {
  Calls forward, backward;  // the loss is in both
};

// One step of the model of comm_counts.json.
Phases step_calls(PlanKind plan, int64_t layers) {
  Traffic traffic;
  Recorder recorded(world(), traffic);
  const DeviceMesh tp = tp_mesh(recorded);
  const LlamaConfig c{96, 64, 128, layers, 8, 4};
  Llama llama(backend(), c);
  parallelize_module(llama, tp, llama_plan(plan, c.attention(), true));
  initialize(llama, 1);
  LossParallel loss(backend(), -100);
  loss.forward(llama.forward(backend().from_host(random_ids("ids", 32, 96), {2, 16})),
               backend().from_host(random_ids("targets", 32, 96), {2, 16}));
  Phases phases{calls_of(traffic), {}};
  traffic.clear();
  llama.backward(loss.backward(32));
  phases.backward = calls_of(traffic);
  return phases;
}

}  // namespace

TEST_CASE("llama with loss parallelism: each rank's logits, the loss and every gradient's part", "[golden]") {
  for (const auto& path : golden_files("llama__"))
    for (const PlanKind plan : {PlanKind::Basic, PlanKind::Sequence, PlanKind::Article}) {
      const Golden golden(path);
      INFO(golden.name() << ", plan " << name_of(plan));
      const DeviceMesh tp = tp_mesh();
      Llama llama(backend(), config_of(golden));
      parallelize_module(llama, tp, llama_plan(plan, llama.config().attention(), true));
      CHECK(show(llama.lm_head.weight.placement("tp")) == "S(0)");
      LossParallel loss(backend(), pad_of(golden));
      check_golden_llama(golden, llama, loss,
                         {.finish = [&](const Parameters& p) { finish_gradients(p, tp); },
                          .norm = [&](const Parameters& p) { return gradient_norm(p, tp, world()); }},
                         2);
    }
}

TEST_CASE("never more calls than PyTorch's loss_parallel: three all-reduces, none backward, one gather less",
          "[golden]") {
  const json counts = read_json(golden_dir() + "/comm_counts.json");
  const std::map<std::string, PlanKind> names = {{"official_loss_parallel", PlanKind::Sequence},
                                                 {"article_loss_parallel", PlanKind::Article}};
  size_t compared = 0;
  for (const auto& [name, plan] : names) {
    const Phases one = step_calls(plan, 1), three = step_calls(plan, 3);
    for (const auto& [op, n] : one.forward) {
      INFO(name << ", " << op);
      const int64_t forward = (three.forward.at(op) - n) / 2;
      const int64_t backward = (three.backward.at(op) - one.backward.at(op)) / 2;
      for (const auto& theirs : counts["per_layer"]) {
        if (theirs["plan"] != name) continue;
        ++compared;
        CHECK(forward <= theirs["forward"].value(op, 0));
        CHECK(backward <= theirs["backward"].value(op, 0));
      }
      for (const auto& theirs : counts["outside_layers"]) {
        if (theirs["plan"] != name) continue;
        ++compared;
        CHECK(n - forward <= theirs["forward"].value(op, 0));
        CHECK(one.backward.at(op) - backward <= theirs["backward"].value(op, 0));
      }
    }
    CHECK(three.forward.at("all_reduce") == (world().size() > 1 ? 3 : 0));
    CHECK(three.backward.at("all_reduce") == 0);
  }
  CHECK(compared >= 12);
}

TEST_CASE("B16: the head's input gradient is whole on every rank") {
  const json B16 = the_case("B16");
  const Tensor W = tensor_of(B16.at("input").at("W"));
  const int64_t V = W.dim(0), E = W.dim(1);
  const DeviceMesh tp = tp_mesh();
  Linear head(backend(), E, V, false);
  ColwiseParallel().use_local_output(false).apply(head, tp);
  head.weight.fill(backend().to_host(W));
  LossParallel loss(backend(), -100);
  loss.forward(head.forward(backend().zeros({1, E})), ids_of(json::array({B16.at("input").at("label")})));
  DTensor gradient = loss.backward(1);
  const Tensor dlogits = tensor_of(json::array({B16.at("right").at("dlogits")}));
  CHECK(differs(gradient.local(), part_of(dlogits, tp, Shard(1)), 1e-6) == "");
  const Tensor dx = head.backward(std::move(gradient)).take(backend());
  CHECK(differs(dx, tensor_of(json::array({B16.at("right").at("dX")})), 1e-6) == "");
}

TEST_CASE("B05: an ignored row has no gradient, and the others are not divided by it") {
  const json B05 = the_case("B05");
  const Tensor logits = tensor_of(B05.at("input").at("rows")), dlogits = tensor_of(B05.at("right").at("a_dlogits"));
  const DeviceMesh tp = tp_mesh();
  LossParallel loss(backend(), B05.at("input").at("a").at("ignore_index").get<int32_t>());
  const Tensor targets = ids_of(B05.at("input").at("a").at("labels"));
  const double sum =
      loss.forward(DTensor(part_of(logits, tp, Shard(1)), Layout{tp, {Shard(1)}, logits.shape()}), targets);
  CHECK(sum == Approx(B05.at("right").at("a").get<double>()));
  const DTensor gradient = loss.backward(static_cast<double>(loss.valid(targets)));
  CHECK(differs(gradient.local(), part_of(dlogits, tp, Shard(1)), 1e-6) == "");
}
