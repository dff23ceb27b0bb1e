// Twenty steps under every plan: PyTorch's, and those of chapter 09 on one rank. What lies on every rank stays alike on
// all.
#include <cmath>

#include "chapters/09_llama/clip.hpp"
#include "chapters/10_tensor_parallel_training/step_traffic.hpp"
#include "tests/chapters/09_llama/golden_llama.hpp"
#include "tests/chapters/10_tensor_parallel_training/tensor_parallel.hpp"
#include "tests/support/cases.hpp"

using namespace course;
using namespace course::test;

namespace {

// The names of the parameters that are whole on every rank and differ somewhere in a bit.
std::string unlike(TensorParallel& run) {
  std::string names;
  for (Parameter* p : run.optimizer->parameters()) {
    if (!is_replicate(p->placement("tp"))) continue;
    const auto values = backend().to_host(p->owned());
    const std::string mine(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    for (const std::string& theirs : world().all_gather_text(mine))
      if (theirs != mine) names += p->name() + " ";
  }
  return names;
}

// What is cut is vocabulary 61, intermediate 41 and 6 heads in 3 groups: 2 and 4 ranks share none of it evenly, 3 ranks
// the heads alone.
LlamaConfig uneven_config() {
  LlamaConfig c{61, 22, 41, 2, 6, 3};
  c.head_dim = 4;
  c.max_position_embeddings = 32;
  return c;
}

void equal_to_serial(const LlamaConfig& config, uint64_t seed, int64_t B, int64_t S, const TrainerOptions& options) {
  const TokenData data(S, random_ids("stream", 5 * B * S + 1, config.vocab_size));
  for (const PlanKind plan : all_plans) {
    INFO("plan " << name_of(plan));
    Serial serial(config, seed, data, B, options);
    TensorParallel run(world(), config, plan);
    initialize(run.llama, seed);
    run.train_on(data, in_order(data.samples(), B), options);
    for (int64_t n = 1; n <= 20; ++n) {
      INFO("step " << n);
      const StepResult want = serial.trainer->step(), got = run.trainer->step();
      CHECK(got.loss == Approx(want.loss).epsilon(1e-5));
      CHECK(got.grad_norm == Approx(want.grad_norm).epsilon(1e-4));
      CHECK(got.tokens == want.tokens);
      CHECK(unlike(run) == "");
    }
    const Parameters wholes = serial.optimizer->parameters(), parts = run.optimizer->parameters();
    int64_t replicated = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      INFO(parts[i]->name());
      replicated += is_replicate(parts[i]->placement("tp"));
      CHECK(differs(parts[i]->value(), part_of(wholes[i]->value(), parts[i]->box()), 5e-4) == "");
    }
    CHECK(replicated >= 2 * config.num_hidden_layers + 1);  // the norms, at least: unlike() looked at something
  }
}

}  // namespace

TEST_CASE("PyTorch's twenty steps under every plan", "[golden]") {
  for (const auto& path : golden_files("train__"))
    for (const PlanKind plan : all_plans) {
      const Golden golden(path);
      INFO(golden.name() << ", plan " << name_of(plan));
      const int64_t steps = golden.shape("in.tokens")[0];
      const TokenData data = stream_of(golden);
      TensorParallel run(world(), config_of(golden), plan);
      for (Parameter* p : parameters_of(run.llama)) p->fill(golden.values("initial." + p->name()));
      run.train_on(data, batches_of(golden), training_of(golden), adamw_of(golden), pad_of(golden));
      std::vector<float> losses, norms, rates;
      for (int64_t n = 1; n <= steps; ++n) {
        const StepResult result = run.trainer->step();
        losses.push_back(static_cast<float>(result.loss));
        norms.push_back(static_cast<float>(result.grad_norm));
        rates.push_back(static_cast<float>(result.lr));
      }
      const double tolerance = golden_tolerance(golden, "tol_loss");
      CHECK(differs(losses, golden.values("out.loss"), {steps}, tolerance) == "");
      CHECK(differs(norms, golden.values("out.grad_norm"), {steps}, tolerance) == "");
      CHECK(differs(rates, golden.values("out.lr"), {steps}, tolerance) == "");
      for (Parameter* p : run.optimizer->parameters()) {
        INFO("final " << p->name());
        const Tensor whole = golden.tensor("final." + p->name());
        CHECK(p->global() == whole.shape());
        CHECK(differs(p->value(), part_of(whole, p->box()), golden_tolerance(golden)) == "");
      }
      CHECK(unlike(run) == "");
    }
}

TEST_CASE("twenty steps are chapter 09's, on sizes that nobody shares evenly") {
  equal_to_serial(uneven_config(), 5, 3, 7, {.schedule = {1e-3, 2, 20}});
}

TEST_CASE("the same with three micro-batches a step", "[long]") {
  equal_to_serial(uneven_config(), 6, 6, 5, {.schedule = {1e-3, 2, 20}, .accumulate = 3});
}

TEST_CASE("B01 end to end: norms are bit-equal on all ranks after each of 20 steps, losses those of one rank") {
  LlamaConfig c{64, 32, 64, 2, 4, 2};
  c.max_position_embeddings = 16;
  equal_to_serial(c, 1234, 2, 16, {.schedule = {1e-3, 2, 20}});
}

TEST_CASE("B02 on tp: a parameter on all ranks counts once, and the clip is that of one rank") {
  const auto B02 = the_case("B02");
  const auto a = floats_of(B02.at("input").at("A_grad")), b = floats_of(B02.at("input").at("B_grad"));
  const auto clipped = [&](const char* name) { return tensor_of(B02.at("right").at(name)); };
  const DeviceMesh mesh(world(), backend(), {{"tp", world().size()}});
  for (const bool cut : {false, true}) {
    INFO("A cut " << cut);
    Parameter A(backend(), "A", {std::ssize(a)}, Init{}), B(backend(), "B", {std::ssize(b)}, Init{});
    if (cut) A.place(mesh, Shard(0), Shard(0));
    const auto set = [](Parameter& p, const std::vector<float>& whole) {
      p.fill(whole);
      backend().add(p.gradient(), part_of(backend().from_host(whole, p.global()), p.box()));
    };
    set(A, a), set(B, b);
    const double norm = gradient_norm({&A, &B}, mesh, world());
    CHECK(norm == Approx(B02.at("right").at("norm").get<double>()).epsilon(1e-12));
    clip_gradients({&A, &B}, norm, B02.at("input").at("max_norm"));
    CHECK(differs(A.gradient(), part_of(clipped("A_clipped"), A.box()), 1e-6) == "");
    CHECK(differs(B.gradient(), clipped("B_clipped"), 1e-6) == "");
  }
}

// Every output and gradient of a layer is rounded to bf16, of relative error 2^-9, and a rank rounds its term of each sum.
TEST_CASE("mixed precision: PyTorch's twenty steps within 2 % of its losses in f32, under every plan", "[golden][long]") {
  for (const auto& path : golden_files("train__"))
    for (const PlanKind plan : all_plans) {
      const Golden golden(path);
      INFO(golden.name() << ", plan " << name_of(plan));
      const TokenData data = stream_of(golden);
      TensorParallel run(world(), config_of(golden), plan, DType::BF16);
      for (Parameter* p : parameters_of(run.llama)) p->fill(golden.values("initial." + p->name()));
      run.train_on(data, batches_of(golden), training_of(golden), adamw_of(golden), pad_of(golden));
      for (const float want : golden.values("out.loss"))
        CHECK(run.trainer->step().loss == Approx(want).epsilon(0.02));
      CHECK(unlike(run) == "");
    }
}

TEST_CASE("mixed precision: ten steps are those of one rank, to bf16's rounding; what lies on all ranks stays alike") {
  const LlamaConfig config = uneven_config();
  constexpr int64_t B = 6, S = 7;
  const TokenData data(S, random_ids("stream", 5 * B * S + 1, config.vocab_size));
  const TrainerOptions options{.schedule = {1e-3, 2, 20}, .accumulate = 2};
  for (const PlanKind plan : all_plans) {
    INFO("plan " << name_of(plan));
    Serial serial(config, 5, data, B, options, DType::BF16);
    TensorParallel run(world(), config, plan, DType::BF16);
    initialize(run.llama, 5);
    run.train_on(data, in_order(data.samples(), B), options);
    for (int64_t n = 1; n <= 10; ++n) {
      INFO("step " << n);
      const StepResult want = serial.trainer->step(), got = run.trainer->step();
      CHECK(got.loss == Approx(want.loss).epsilon(world().size() == 1 ? 1e-12 : 2e-3));
      CHECK(got.grad_norm == Approx(want.grad_norm).epsilon(world().size() == 1 ? 1e-12 : 0.02));
      CHECK(unlike(run) == "");
    }
  }
}

TEST_CASE("what a step sends is what the formula says, under every plan") {
  constexpr int64_t B = 4, S = 8;  // the bytes are those of the whole, whether the vocabulary divides or not
  const int64_t p = world().size();
  for (const LlamaConfig& config : {uneven_config(), LlamaConfig{64, 32, 64, 3, 4, 4}})
    for (const PlanKind plan : all_plans)
      for (const auto& [accumulate, type] :
           {std::pair{int64_t{1}, DType::F32}, {2, DType::F32}, {1, DType::BF16}, {2, DType::BF16}}) {
        INFO("plan " << name_of(plan) << ", micro-batches " << accumulate << ", vocabulary " << config.vocab_size << ", "
                     << name_of(type));
        const TokenData data(S, random_ids("stream", B * S + 1, config.vocab_size));
        Traffic traffic;
        Recorder recorded(world(), traffic);
        TensorParallel run(recorded, config, plan, type);
        initialize(run.llama, 1);
        run.train_on(data, in_order(data.samples(), B), {.schedule = {1e-3, 2, 20}, .accumulate = accumulate});
        traffic.clear();
        run.trainer->step();
        auto formula =
            tensor_parallel_traffic(config, plan, false, B / accumulate, S, p, accumulate, config.hidden_size, false, type);
        std::ostringstream out;
        CHECK_NOTHROW(show_traffic(out, traffic, formula));
        CHECK(formula.empty() == (p == 1));
        if (formula.empty()) continue;
        ++formula.front().calls;
        CHECK_THROWS_AS(show_traffic(out, traffic, formula), Error);
      }
}
