// What a step holds, counted by the pool, beside the formula; and recomputation, which changes memory and nothing else.
#include "chapters/10_tensor_parallel_training/step_memory.hpp"

#include "chapters/09_llama/recompute.hpp"
#include "tests/chapters/10_tensor_parallel_training/tensor_parallel.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr int64_t B = 4, S = 19;  // 19 positions: no number of ranks above 1 shares them evenly

struct Steps {
  std::vector<StepResult> results;
  MemoryUse first, after_validation;
};

Steps train(PlanKind plan, const std::string& what, int64_t accumulate, int64_t steps, DType type) {
  const LlamaConfig config = little_config();
  const TokenData data(S, random_ids("stream", 4 * B * S + 1, config.vocab_size));
  TensorParallel run(world(), config, plan, type);
  recompute(run.llama, what);
  initialize(run.llama, 5);
  run.train_on(data, in_order(data.samples(), B), {.schedule = {0.01, 2, 12}, .accumulate = accumulate});
  Steps seen;
  const int64_t before = backend().memory_use().now;
  run.trainer->validate(data, B, B);
  seen.after_validation = backend().memory_use();
  CHECK(seen.after_validation.now == before);
  for (int64_t i = 0; i < steps; ++i) {
    backend().reset_peak();
    seen.results.push_back(run.trainer->step());
    if (i == 0) seen.first = backend().memory_use();
  }
  return seen;
}

StepSizes sizes(PlanKind plan, const std::string& what, int64_t accumulate, DType type) {
  const LlamaConfig config = little_config();
  return {.config = config,
          .plan = plan,
          .recompute = what == "layer",
          .B = B / accumulate,
          .S = S,
          .p = world().size(),
          .rank = world().rank(),
          .micro_batches = accumulate,
          .norm_size = config.hidden_size,
          .device = backend().memory().device(),
          .type = type};
}

}  // namespace

TEST_CASE("memory: what the pool counts in a step is the formula, class by class, and validation leaves nothing") {
  for (const PlanKind plan : all_plans)
    for (const std::string what : {"none", "layer"})
      for (const auto& [accumulate, type] :
           {std::pair{int64_t{1}, DType::F32}, {2, DType::F32}, {1, DType::BF16}, {2, DType::BF16}}) {
        CAPTURE(name_of(plan), what, accumulate, name_of(type));
        const auto moments = tensor_parallel_memory(sizes(plan, what, accumulate, type));
        const MemoryUse seen = train(plan, what, accumulate, 1, type).first;
        CHECK(memory_differs(seen, moments, 0.02) == "");
        CHECK(seen.peak_of[MemoryClass::Parameters] == moments[0].bytes[MemoryClass::Parameters]);
        CHECK(seen.peak_of[MemoryClass::Optimizer] == moments[0].bytes[MemoryClass::Optimizer]);
        CHECK(seen.peak_of[MemoryClass::Gradients] == highest_of(moments)[MemoryClass::Gradients]);
        CHECK(seen.at_peak.total() == seen.peak);
      }
}

TEST_CASE("recompute: losses and norms of three steps are the same bits, and a step holds less", "[long]") {
  for (const PlanKind plan : all_plans)
    for (const DType type : {DType::F32, DType::BF16}) {
      CAPTURE(name_of(plan), name_of(type));
      const Steps kept = train(plan, "none", 1, 3, type), again = train(plan, "layer", 1, 3, type);
      for (size_t i = 0; i < 3; ++i) {
        CHECK(kept.results[i].loss == again.results[i].loss);
        CHECK(kept.results[i].grad_norm == again.results[i].grad_norm);
      }
      CHECK(again.first.peak_of[MemoryClass::Activations] < kept.first.peak_of[MemoryClass::Activations]);
    }
}
