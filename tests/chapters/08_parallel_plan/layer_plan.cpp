// The plans of a decoder layer: equal to serial, PyTorch's numbers, never more calls than PyTorch.
#include "chapters/08_parallel_plan/layer_plan.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/07_sequence_parallel/stream_comparison.hpp"
#include "chapters/08_parallel_plan/layer_calls.hpp"
#include "common/chunk.hpp"
#include "tests/chapters/07_sequence_parallel/layers.hpp"

namespace course::test {
namespace {

const PlanKind all_plans[] = {PlanKind::Basic, PlanKind::Sequence, PlanKind::Article};

Placement stream_of(PlanKind plan) { return plan == PlanKind::Basic ? Placement(Replicate()) : Shard(1); }

// Ours for each name of comm_counts.json.
const std::map<std::string, PlanKind> pytorch_names = {
    {"article", PlanKind::Article},   {"article_loss_parallel", PlanKind::Article},
    {"official", PlanKind::Sequence}, {"official_loss_parallel", PlanKind::Sequence},
    {"basic", PlanKind::Basic},       {"basic_shared_input", PlanKind::Basic}};

StreamRun run_layer(PlanKind plan, const LayerSizes& z, const DeviceMesh& tp, Traffic& traffic) {
  const auto serial = make_layer(z), layer = make_layer(z);
  parallelize_module(*layer, tp, layer_plan(plan, z.attention));
  initialize(*serial, 5), initialize(*layer, 5);
  return StreamComparison(tp, traffic, *serial, z.shape()).run(*layer, stream_of(plan));
}

void check_not_more(const Traffic& ours, const nlohmann::json& theirs) {
  CHECK(ours.count(Op::AllGather) <= theirs.value("all_gather", 0));
  CHECK(ours.count(Op::ReduceScatter) <= theirs.value("reduce_scatter", 0));
  CHECK(ours.count(Op::AllReduce) <= theirs.value("all_reduce", 0));
  int64_t most = 0;
  for (const auto& [name, count] : theirs.items()) most += count.get<int64_t>();
  CHECK(ours.total().calls <= most);
}

}  // namespace

TEST_CASE("decoder layer under every plan: PyTorch's numbers", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("decoder_layer__"))
    for (const PlanKind plan : all_plans) {
      const Golden golden(path);
      INFO(golden.name() << ", " << name_of(plan));
      const auto layer = make_layer(golden);
      const ParallelPlan entries = layer_plan(plan, sizes_of(golden).attention);
      parallelize_module(*layer, tp, entries);
      check_plan(*layer, tp, entries);
      fill_from(*layer, golden);
      check_module(expected_of(golden), *layer, tp, golden.tensor("in.x"), golden.tensor("in.dout"),
                   stream(stream_of(plan), golden_tolerance(golden)));
    }
}

TEST_CASE("a decoder layer under every plan equals its serial self: output, gradients, parameters after three steps") {
  const DeviceMesh tp = tp_mesh();
  for (const LayerSizes& z : layer_sizes)
    for (const PlanKind plan : all_plans) {
      INFO(shown(z) << ", " << name_of(plan));
      const auto serial = make_layer(z), sharded = make_layer(z);
      parallelize_module(*sharded, tp, layer_plan(plan, z.attention));
      check_layer(z, *serial, *sharded, tp, stream_of(plan));
    }
}

TEST_CASE("two layers behind each other under every plan: one stream through both") {
  const DeviceMesh tp = tp_mesh();
  const LayerSizes z = layer_sizes[1];
  for (const PlanKind plan : all_plans) {
    INFO(shown(z) << ", " << name_of(plan));
    std::vector<std::unique_ptr<DecoderLayer>> serial, sharded;
    for (const uint64_t seed : {21, 22}) {
      serial.push_back(make_layer(z)), sharded.push_back(make_layer(z));
      parallelize_module(*sharded.back(), tp, layer_plan(plan, z.attention));
      initialize(*serial.back(), seed), initialize(*sharded.back(), seed);
    }
    const Placement lies = stream_of(plan);
    const DTensor y = serial[1]->forward(serial[0]->forward(random("x", z.shape())));
    const DTensor dx = serial[0]->backward(serial[1]->backward(random("dy", z.shape())));
    const DTensor y_part = sharded[1]->forward(sharded[0]->forward(part_of_stream(random("x", z.shape()), tp, lies)));
    const DTensor dx_part =
        sharded[0]->backward(sharded[1]->backward(part_of_stream(random("dy", z.shape()), tp, lies)));
    CHECK(differs(y_part.local(), part_of(y.local(), tp, lies), 1e-5) == "");
    CHECK(differs(dx_part.local(), part_of(dx.local(), tp, lies), 1e-5) == "");
  }
}

TEST_CASE("never more calls a layer than PyTorch, and basic fewer", "[golden]") {
  std::ifstream file(golden_dir() + "/comm_counts.json");
  const auto per_layer = nlohmann::json::parse(file).at("per_layer");
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  std::map<PlanKind, StreamRun> runs;
  for (const PlanKind plan : all_plans) runs.emplace(plan, run_layer(plan, {2, 16, 128, {64, 8, 4, 8}}, tp, traffic));
  int walked = 0;
  for (const auto& entry : per_layer) {
    const std::string name = entry.at("plan");
    INFO(name << ", PyTorch on " << entry.at("tp") << " ranks, ours on " << tp.size());
    CHECK(pytorch_names.contains(name));
    if (!pytorch_names.contains(name)) continue;
    const PlanKind plan = pytorch_names.at(name);
    check_not_more(runs.at(plan).forward, entry.at("forward"));
    check_not_more(runs.at(plan).backward, entry.at("backward"));
    ++walked;
    if (name.ends_with("_loss_parallel") || name == "basic_shared_input") continue;
    // What the program prints of PyTorch is what was counted.
    const auto calls = [](const nlohmann::json& counts) {
      return Calls{counts.value("all_gather", 0), counts.value("reduce_scatter", 0), counts.value("all_reduce", 0)};
    };
    CHECK(show(pytorch_calls_of(plan).forward) == show(calls(entry.at("forward"))));
    CHECK(show(pytorch_calls_of(plan).backward) == show(calls(entry.at("backward"))));
    if (name == "basic")
      CHECK(runs.at(plan).backward.count(Op::AllReduce) < entry.at("backward").at("all_reduce").get<int64_t>());
  }
  CHECK(walked > 0);
}

TEST_CASE("the calls and bytes of a layer under every plan are those of the formula") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t P = tp.size(), some = P > 1;
  for (const LayerSizes& z : layer_sizes) {
    const auto [E, H, K, D] = z.attention;
    const double share = (P - 1.0) / P * 4 * z.B * z.S;
    for (const PlanKind plan : all_plans) {
      INFO(shown(z) << ", " << name_of(plan));
      const StreamRun run = run_layer(plan, z, tp, traffic);
      CHECK(run.difference <= 1e-5);
      const bool basic = plan == PlanKind::Basic, article = plan == PlanKind::Article;
      const auto check = [&](const Traffic& sent, int64_t gathers, int64_t scatters, int64_t reduces, double features) {
        CHECK(counted(sent) == Calls{some * gathers, some * scatters, some * reduces});
        CHECK(sent.total().calls == some * (gathers + scatters + reduces));
        CHECK(sent.total().bytes == Approx(share * features).epsilon(1e-9));
      };
      // Every plan sends the stream four times at half an all-reduce each; the article's also q, k and v, and back dq.
      check(run.forward,
            basic     ? 0
            : article ? 5
                      : 2,
            basic ? 0 : 2, basic ? 2 : 0, 4.0 * E + (article ? H * D + 2 * K * D : 0));
      check(run.backward, basic ? 0 : article ? 3 : 2, basic ? 0 : 2, basic ? 2 : 0, 4.0 * E + (article ? H * D : 0));
      CHECK(run.gradients.total().calls == some * (basic ? 0 : 2));

      const LayerCost cost = cost_of(plan, z.attention, z.B, z.S, tp.comm().size());
      for (const auto& [sent, formula, table] : {std::tuple(run.forward, cost.forward, calls_of(plan).forward),
                                                 std::tuple(run.backward, cost.backward, calls_of(plan).backward)}) {
        CHECK(sent.total().calls == formula.calls);
        CHECK(sent.total().bytes == Approx(formula.bytes).epsilon(1e-9));
        if (P > 1) CHECK(show(counted(sent)) == show(table));
      }
    }
  }
}

TEST_CASE("heads are cut between key/value groups: 12 heads, 3 groups, 2 ranks are 8 + 4 heads") {
  const DeviceMesh tp = tp_mesh();
  const AttentionSizes sizes = {768, 12, 3, 64};
  const auto rows = [&](PlanKind plan, const char* name) {
    Attention attention(backend(), sizes, nullptr, nullptr);
    for (const auto& entry : layer_plan(plan, sizes))
      if (entry.pattern.starts_with("self_attn."))
        parallelize_module(attention, tp, {{entry.pattern.substr(10), entry.style}});
    for (Parameter* p : parameters_of(attention))
      if (p->name() == name) return p->box().size;
    return Shape{};
  };
  for (const PlanKind plan : {PlanKind::Basic, PlanKind::Sequence}) {
    const int64_t groups = chunk(3, tp.size(), tp.coordinate()).size;
    CHECK(rows(plan, "q_proj.weight") == Shape{groups * 256, 768});
    CHECK(rows(plan, "k_proj.weight") == Shape{groups * 64, 768});
    CHECK(rows(plan, "v_proj.weight") == Shape{groups * 64, 768});
    CHECK(rows(plan, "o_proj.weight") == Shape{768, groups * 256});
  }
  CHECK(rows(PlanKind::Article, "q_proj.weight")[0] == chunk(768, tp.size(), tp.coordinate()).size);
}

TEST_CASE("plans have names, and a Llama's plan is its layers' and the top's") {
  for (const PlanKind plan : all_plans) CHECK(plan_kind(name_of(plan)) == plan);
  CHECK_THROWS_AS(plan_kind("megatron"), UsageError);
  CHECK_THROWS_WITH(plan_kind("megatron"), "--plan megatron: there are basic, sequence, article");
  CHECK_THROWS_AS(layer_plan(PlanKind::Basic, {8, 3, 2, 2}), SharedError);

  const AttentionSizes sizes = {8, 4, 2, 2};
  for (const PlanKind kind : all_plans)
    for (const bool loss_parallel : {false, true}) {
      const ParallelPlan layer = layer_plan(kind, sizes), top = top_plan(kind, loss_parallel),
                         llama = llama_plan(kind, sizes, loss_parallel);
      CHECK(llama.size() == layer.size() + top.size());
      for (size_t i = 0; i < layer.size(); ++i) {
        CHECK(llama[i].pattern == "model.layers.*." + layer[i].pattern);
        CHECK(llama[i].style->show() == layer[i].style->show());
      }
      for (size_t i = 0; i < top.size(); ++i) CHECK(llama[layer.size() + i].pattern == top[i].pattern);
    }
}

namespace {

// What stands around the layers of a Llama: embedding, last norm, head.
class Around : public Module {
 public:
  Around(Backend& backend, int64_t V, int64_t E)
      : Module(backend),
        model(add("model", std::make_unique<Inner>(backend, V, E))),
        lm_head(add("lm_head", std::make_unique<Linear>(backend, E, V))) {}
  std::string kind() const override { return "Around"; }

 private:
  struct Inner : Module {
    Inner(Backend& backend, int64_t V, int64_t E)
        : Module(backend),
          embed_tokens(add("embed_tokens", std::make_unique<Embedding>(backend, V, E))),
          norm(add("norm", std::make_unique<RmsNorm>(backend, E))) {}
    std::string kind() const override { return "Inner"; }
    DTensor run_forward(DTensor ids) override { return norm.forward(embed_tokens.forward(std::move(ids))); }
    DTensor run_backward(DTensor dy) override { return embed_tokens.backward(norm.backward(std::move(dy))); }
    Embedding& embed_tokens;
    RmsNorm& norm;
  };
  DTensor run_forward(DTensor ids) override { return lm_head.forward(model.forward(std::move(ids))); }
  DTensor run_backward(DTensor dy) override { return model.backward(lm_head.backward(std::move(dy))); }
  Inner& model;
  Linear& lm_head;
};

}  // namespace

TEST_CASE("the top plan: logits whole or cut by vocabulary, every gradient, never more calls than PyTorch",
          "[golden]") {
  std::ifstream file(golden_dir() + "/comm_counts.json");
  const auto outside = nlohmann::json::parse(file).at("outside_layers");
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t B = 3, S = 7, E = 10, V = 23;
  std::vector<int32_t> ids(B * S);
  for (int64_t i = 0; i < B * S; ++i) ids[i] = static_cast<int32_t>((i * i + 5 * i) % V);
  const Tensor x = backend().from_host(ids, {B, S}), dy = random("dy", {B, S, V});
  Around serial(backend(), V, E);
  initialize(serial, 5);
  for (const PlanKind kind : all_plans)
    for (const bool loss_parallel : {false, true}) {
      INFO(name_of(kind) << (loss_parallel ? ", loss parallel" : "") << ", rank " << world().rank() << " of "
                         << world().size());
      Around sharded(backend(), V, E);
      const ParallelPlan plan = top_plan(kind, loss_parallel);
      parallelize_module(sharded, tp, plan);
      check_plan(sharded, tp, plan);
      initialize(sharded, 5);
      const Placement logits = loss_parallel ? Placement(Shard(-1)) : Replicate();
      check_module(serial, sharded, tp, x, dy, {.output = logits});
      traffic.clear();
      const DTensor y = sharded.forward(backend().clone(x));
      const Traffic forward = traffic;
      CHECK(y.has_layout() == loss_parallel);
      traffic.clear();
      DTensor dout = part_of(dy, tp, logits);
      if (y.has_layout()) dout = DTensor(part_of(dy, tp, logits), y.layout());
      sharded.backward(std::move(dout));
      for (const auto& entry : outside) {
        const std::string name = entry.at("plan");
        if (!pytorch_names.contains(name) || pytorch_names.at(name) != kind) continue;
        if (name.ends_with("_loss_parallel") != loss_parallel) continue;
        check_not_more(forward, entry.at("forward"));
        check_not_more(traffic, entry.at("backward"));
      }
    }
}

}  // namespace course::test
