// ParallelPlan: what a pattern matches, what is refused, what is printed, whether it took.
#include "chapters/08_parallel_plan/parallel_plan.hpp"

#include "chapters/07_sequence_parallel/sequence_style.hpp"
#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "tests/chapters/07_sequence_parallel/layers.hpp"

namespace course::test {
namespace {

// A module of nothing but children, to name at will.
class Group : public Module {
 public:
  explicit Group(Backend& backend) : Module(backend) {}
  std::string kind() const override { return "Group"; }
  template <typename M>
  M& put(const std::string& name, std::unique_ptr<M> child) {
    return add(name, std::move(child));
  }

 private:
  DTensor run_forward(DTensor x) override { return x; }
  DTensor run_backward(DTensor dy) override { return dy; }
};

const LayerSizes z = {2, 5, 7, {12, 6, 3, 2}};

// Two decoder layers, as layers.0 and layers.1 of a model.
std::unique_ptr<Group> make_model() {
  auto model = std::make_unique<Group>(backend());
  Group& layers = model->put("layers", std::make_unique<Group>(backend()));
  layers.put("0", make_layer(z));
  layers.put("1", make_layer(z));
  return model;
}

// The words with which a plan is refused.
std::string refused(Module& root, const DeviceMesh& tp, const ParallelPlan& plan) {
  try {
    parallelize_module(root, tp, plan);
  } catch (const SharedError& error) {
    return error.what();
  }
  return "";
}

std::string styled_modules(Module& root) {
  std::string text;
  for (const auto& [path, module] : named_modules(root))
    if (module->styled()) text += (text.empty() ? "" : " ") + (path.empty() ? "(root)" : path);
  return text;
}

}  // namespace

TEST_CASE("a pattern matches token by token") {
  struct Case {
    const char *pattern, *path;
    bool same;
  };
  for (const Case& c : {Case{"mlp", "mlp", true},
                        {"", "", true},
                        {"*", "mlp", true},
                        {"*", "mlp.up_proj", false},  // no crossing of dots
                        {"*", "", false},
                        {"", "mlp", false},
                        {"layers.*.mlp", "layers.0.mlp", true},
                        {"layers.*.mlp", "layers.11.mlp", true},
                        {"layers.*.mlp", "layers.0.x.mlp", false},
                        {"layers.*", "layers.0.mlp", false},
                        {"layers*mlp", "layers.0.mlp", false},
                        {"*.mlp", "layers.0.mlp", false},
                        {"layers.?.mlp", "layers.0.mlp", true},
                        {"layers.?.mlp", "layers.11.mlp", false},
                        {"layers?0", "layers.0", false},
                        {"layers[.]0", "layers.0", false},
                        {"layers.[!0].mlp", "layers.0.mlp", false},
                        {"layers.[!0].mlp", "layers.1.mlp", true},
                        {"self_attn.[qkv]_proj", "self_attn.k_proj", true},
                        {"self_attn.[qkv]_proj", "self_attn.o_proj", false},
                        {"self_attn.[qkv]_proj", "self_attn.qk_proj", false},
                        {"layers.[0-2]", "layers.2", true},
                        {"layers.[0-2]", "layers.3", false},
                        {"mlp", "mlp.up_proj", false},
                        {"mlp.up_proj", "mlp", false},
                        {"up_proj", "mlp.up_proj", false},
                        {"mlp.*_proj", "mlp.up_proj", true},
                        {"MLP", "mlp", false},
                        {"mlp/up_proj", "mlp.up_proj", false},
                        {"mlp.", "mlp", false}}) {
    INFO("'" << c.pattern << "' on '" << c.path << "'");
    CHECK(matches(c.pattern, c.path) == c.same);
  }
}

TEST_CASE("a plan reaches the modules of every layer, and none else") {
  const DeviceMesh tp = tp_mesh();
  const auto model = make_model();
  const ParallelPlan plan = {{"layers.*.mlp.gate_proj", ColwiseParallel()},
                             {"layers.1.mlp.down_proj", RowwiseParallel()}};
  parallelize_module(*model, tp, plan);
  CHECK(styled_modules(*model) == "layers.0.mlp.gate_proj layers.1.mlp.gate_proj layers.1.mlp.down_proj");
  for (Parameter* p : parameters_of(*model)) {
    const bool gate = p->name().ends_with("mlp.gate_proj.weight"), down = p->name() == "layers.1.mlp.down_proj.weight";
    CHECK(show(p->placement("tp")) == (gate ? "S(0)" : down ? "S(1)" : "R"));
    CHECK(p->box() == local_box(tp, {p->placement("tp")}, p->global()));
  }
  check_plan(*model, tp, plan);

  const auto root = make_layer(z);
  parallelize_module(*root, tp, {{"", PrepareModuleInput(Replicate(), Replicate())}});
  CHECK(root->styled());
  parallelize_module(root->mlp, tp, {{"up_proj", ColwiseParallel()}});  // a part of a model, with paths below it
  CHECK(styled_modules(*root) == "(root) mlp.up_proj");
}

TEST_CASE("a plan that cannot be meant is refused with its words, before any module is touched") {
  const DeviceMesh tp = tp_mesh();
  const auto layer = make_layer(z);
  const PlanEntry good = {"mlp.up_proj", ColwiseParallel()};
  struct Case {
    ParallelPlan plan;
    std::string words;
  };
  for (const Case& c : {
           Case{{good, {"mlp.up", ColwiseParallel()}},
                "plan entry 'mlp.up' matches no module of this DecoderLayer: below 'mlp' there are gate_proj, up_proj, "
                "down_proj"},
           {{good, {"model.mlp.up_proj", ColwiseParallel()}},
            "plan entry 'model.mlp.up_proj' matches no module of this DecoderLayer: below the root there are "
            "input_layernorm, self_attn, post_attention_layernorm, mlp"},
           {{good, {"mlp.up_proj.weight", ColwiseParallel()}},
            "plan entry 'mlp.up_proj.weight' matches no module of this DecoderLayer: below 'mlp.up_proj' there is "
            "nothing"},
           {{good, {"mlp.*_proj", ColwiseParallel()}},
            "module 'mlp.up_proj' is styled twice: by plan entry 'mlp.up_proj' and by 'mlp.*_proj'"},
           {{good, good}, "module 'mlp.up_proj' is styled twice: by plan entry 'mlp.up_proj' and by 'mlp.up_proj'"},
       }) {
    CHECK(refused(*layer, tp, c.plan) == c.words);
    CHECK(styled_modules(*layer) == "");
  }
  const DeviceMesh plane(world(), backend(), {{"dp", 1}, {"tp", world().size()}});
  CHECK(refused(*layer, plane, {good}) ==
        cat("parallelize_module takes a mesh of one axis, not dp 1 × tp ", world().size(), ": pass mesh[\"tp\"]"));
  CHECK(styled_modules(*layer) == "");
  CHECK(refused(*layer, plane["tp"], {good}) == "");

  CHECK(refused(*layer, tp, {good}) ==
        "plan entry 'mlp.up_proj': module 'mlp.up_proj' is styled twice: ColwiseParallel(R → S(-1)), then "
        "ColwiseParallel(R → S(-1))");
}

TEST_CASE("a style that does not fit its module is refused by name") {
  const DeviceMesh tp = tp_mesh();
  CHECK(refused(*make_layer(z), tp, {{"mlp.up_proj", SequenceParallel()}}) ==
        "plan entry 'mlp.up_proj' at module 'mlp.up_proj': SequenceParallel takes an RmsNorm, not a Linear");
  CHECK(refused(*make_layer(z), tp, {{"mlp", ColwiseParallel()}}) ==
        "plan entry 'mlp' at module 'mlp': ColwiseParallel takes a Linear or an Embedding, not a SwiGluMlp");
  CHECK(refused(*make_layer(z), tp, {{"*_layernorm", RowwiseParallel()}}) ==
        "plan entry '*_layernorm' at module 'input_layernorm': RowwiseParallel takes a Linear or an Embedding, not a "
        "RmsNorm");
  CHECK_THAT(
      refused(*make_layer(z), tp, {{"self_attn.q_proj", ColwiseParallel().block(5)}}),
      Catch::Matchers::Contains("plan entry 'self_attn.q_proj'") && Catch::Matchers::Contains("between blocks of 5"));
  const auto filled = make_layer(z);
  initialize(*filled, 1);
  CHECK_THAT(refused(*filled, tp, {{"mlp.up_proj", ColwiseParallel()}}),
             Catch::Matchers::Contains("plan entry 'mlp.up_proj'") && Catch::Matchers::Contains("before it is filled"));
}

TEST_CASE("check_plan finds a module without its style, and ranks that do not hold a parameter once") {
  const DeviceMesh tp = tp_mesh();
  const ParallelPlan plan = layer_plan(PlanKind::Sequence, z.attention);
  {
    const auto layer = make_layer(z);
    CHECK_THROWS_WITH(
        check_plan(*layer, tp, plan),
        Catch::Matchers::Contains("module 'input_layernorm' is to be SequenceParallel(S(1)), it has no style"));
    parallelize_module(*layer, tp, plan);
    check_plan(*layer, tp, plan);
    CHECK_THROWS_WITH(
        check_plan(*layer, tp, layer_plan(PlanKind::Article, z.attention)),
        Catch::Matchers::Contains("module 'self_attn.q_proj' is to be ColwiseParallel(R → R), it is ColwiseParallel"));
  }
  if (world().size() == 1) return;
  // As if the ranks had cut by two rules: rank 0 takes all, the others their own part.
  const auto alone = world().split(world().rank(), 0, "tp");
  const DeviceMesh lonely = tp_mesh(*alone);
  const auto layer = make_layer(z);
  parallelize_module(*layer, world().rank() == 0 ? lonely : tp, {{"mlp.up_proj", ColwiseParallel()}});
  CHECK_THROWS_WITH(check_plan(*layer, tp, {{"mlp.up_proj", ColwiseParallel()}}),
                    Catch::Matchers::Contains("mlp.up_proj.weight is S(0) on tp"));
}

TEST_CASE("plans and trees print what they are") {
  const DeviceMesh tp = tp_mesh();
  const auto layer = make_layer({2, 5, 8, {8, 4, 4, 2}});
  const ParallelPlan plan = {{"input_layernorm", SequenceParallel()},
                             {"self_attn", PrepareModuleInput(Shard(1), Replicate())},
                             {"self_attn.q_proj", ColwiseParallel().block(2)},
                             {"mlp.down_proj", RowwiseParallel().output(Shard(1))}};
  parallelize_module(*layer, tp, plan);
  CHECK(show_plan(plan) ==
        "module            style\n"
        "───────────────────────────────────────────────\n"
        "input_layernorm   SequenceParallel(S(1))\n"
        "self_attn         PrepareModuleInput(S(1) → R)\n"
        "self_attn.q_proj  ColwiseParallel(R → S(-1,/2))\n"
        "mlp.down_proj     RowwiseParallel(S(-1) → S(1))\n");
  const int64_t p = tp.size(), r = tp.coordinate(), q = local_box(tp, {Shard(0, 2)}, {8, 8}).size[0],
                down = local_box(tp, {Shard(1)}, {8, 8}).size[1];
  INFO("rank " << r << " of " << p);
  CHECK(show_tree(*layer, "tp") == cat("DecoderLayer\n"
                                       "  input_layernorm  SequenceParallel(S(1))\n"
                                       "    · weight R, gradient P  [8] → [8]\n"
                                       "  self_attn  PrepareModuleInput(S(1) → R)\n"
                                       "    q_proj  ColwiseParallel(R → S(-1,/2))\n"
                                       "      · weight S(0,/2)  [8,8] → [",
                                       q,
                                       ",8]\n"
                                       "    k_proj\n"
                                       "      · weight R  [8,8] → [8,8]\n"
                                       "    v_proj\n"
                                       "      · weight R  [8,8] → [8,8]\n"
                                       "    o_proj\n"
                                       "      · weight R  [8,8] → [8,8]\n"
                                       "  post_attention_layernorm\n"
                                       "    · weight R  [8] → [8]\n"
                                       "  mlp\n"
                                       "    gate_proj\n"
                                       "      · weight R  [8,8] → [8,8]\n"
                                       "    up_proj\n"
                                       "      · weight R  [8,8] → [8,8]\n"
                                       "    down_proj  RowwiseParallel(S(-1) → S(1))\n"
                                       "      · weight S(1)  [8,8] → [8,",
                                       down, "]\n"));
}

}  // namespace course::test
