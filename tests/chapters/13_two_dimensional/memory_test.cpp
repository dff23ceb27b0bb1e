// What a step on a mesh holds, counted by the pool, beside the formula; and recomputation inside FSDP's hooks.
#include "chapters/12_fully_sharded/sharded_memory.hpp"
#include "common/chunk.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Steps {
  std::vector<StepResult> results;
  MemoryUse first;
};

Steps train(const Little& little, const MeshSize& size, PlanChoice choice, int64_t accumulate, int64_t steps) {
  InFlight in_flight;
  choice.in_flight = &in_flight;
  TwoDimensional run(world(), size, uneven_config(), choice);
  initialize(run.llama, 5);
  TrainerOptions options = little.options;
  options.accumulate = accumulate;
  run.train_on(little.data, in_order(little.data.samples(), Little::B), options);
  Steps seen;
  for (int64_t i = 0; i < steps; ++i) {
    backend().reset_peak();
    seen.results.push_back(run.trainer->step());
    if (i == 0) seen.first = backend().memory_use();
  }
  return seen;
}

std::vector<Moment> formula(const MeshSize& size, const PlanChoice& choice, int64_t accumulate) {
  const LlamaConfig config = uneven_config();
  const int64_t dp_rank = world().rank() / size.tp;
  const StepSizes sizes{.config = config,
                        .plan = choice.plan,
                        .loss_parallel = choice.loss_parallel,
                        .recompute = choice.recompute,
                        .B = Little::B / size.dp / accumulate,
                        .S = Little::S,
                        .p = size.tp,
                        .rank = world().rank() % size.tp,
                        .micro_batches = accumulate,
                        .norm_size = chunk(config.hidden_size, size.dp, dp_rank).size,
                        .device = backend().memory().device(),
                        .type = choice.type};
  return fully_sharded_memory(tensor_parallel_memory(sizes), sizes, size.dp, dp_rank);
}

}  // namespace

TEST_CASE("memory: what the pool counts in a step is the formula, on every mesh and plan", "[long]") {
  const Little little;
  std::vector<PlanChoice> choices = all_plans();
  for (PlanChoice choice : all_plans()) {
    choice.type = DType::BF16;
    if (choice.loss_parallel || choice.plan == PlanKind::Sequence) choices.push_back(choice);
  }
  for (const MeshSize& size : meshes_of(world().size()))
    for (PlanChoice choice : choices)
      for (const bool again : {false, true})
        for (const int64_t accumulate : {1, 2, 3}) {
          if (Little::B % (size.dp * accumulate) != 0) continue;  // the programs refuse it
          choice.recompute = again;
          CAPTURE(show(size, choice), again, accumulate);
          const auto moments = formula(size, choice, accumulate);
          const MemoryUse seen = train(little, size, choice, accumulate, 1).first;
          CHECK(memory_differs(seen, moments, 0.02) == "");
          CHECK(seen.peak_of[MemoryClass::Parameters] == moments[0].bytes[MemoryClass::Parameters]);
          CHECK(seen.peak_of[MemoryClass::Optimizer] == moments[0].bytes[MemoryClass::Optimizer]);
        }
}

TEST_CASE("recompute: on every mesh, losses and norms of three steps are the same bits") {
  const Little little;
  for (const MeshSize& size : meshes_of(world().size())) {
    PlanChoice choice;
    const Steps kept = train(little, size, choice, 1, 3);
    choice.recompute = true;
    const Steps again = train(little, size, choice, 1, 3);
    CAPTURE(show(size, choice));
    for (size_t i = 0; i < 3; ++i) {
      CHECK(kept.results[i].loss == again.results[i].loss);
      CHECK(kept.results[i].grad_norm == again.results[i].grad_norm);
    }
    CHECK(again.first.peak_of[MemoryClass::Activations] < kept.first.peak_of[MemoryClass::Activations]);
  }
}
