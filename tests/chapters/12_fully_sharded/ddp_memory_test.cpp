// What a step of data parallelism holds while its buckets pile up, counted by the pool, beside the formula.
#include "chapters/09_llama/recompute.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/sharded_memory.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr int64_t B = 12, S = 7;

// The first step's memory, and what the formula makes of it.
std::pair<MemoryUse, std::vector<Moment>> first_step(bool again, int64_t accumulate, int64_t bucket_bytes, DType type) {
  const LlamaConfig config = little_config();
  const TokenData data(S, random_ids("stream", B * S + 1, 61));
  const DeviceMesh mesh(world(), backend(), {{"dp", world().size()}});
  Llama llama(backend(), config);
  recompute(llama, again ? "layer" : "none");
  compute_in(llama, type);
  initialize(llama, 5);
  AdamW optimizer(parameters_of(llama));
  InFlight in_flight;
  Ddp ddp(optimizer.parameters(), mesh, bucket_bytes);
  ddp.reduce_during_backward(llama, accumulate, in_flight);
  CrossEntropy loss(backend(), 0);
  GradientSteps gradients;
  gradients.finish = [&](const Parameters&) { ddp.reduce_gradients(); };
  Trainer trainer(llama, optimizer, loss, data, in_order(data.samples(), B),
                  {.schedule = {0.01, 2, 12}, .accumulate = accumulate}, share_over(mesh), gradients);
  backend().reset_peak();
  trainer.step();
  const MemoryUse seen = backend().memory_use();
  const StepSizes sizes{.config = config,
                        .plan = PlanKind::Basic,
                        .recompute = again,
                        .B = B / world().size() / accumulate,
                        .S = S,
                        .micro_batches = accumulate,
                        .norm_size = config.hidden_size,
                        .device = backend().memory().device(),
                        .type = type};
  return {seen, data_parallel_memory(tensor_parallel_memory(sizes), sizes, world().size(), ddp.bucket_bytes())};
}

}  // namespace

TEST_CASE("memory: DDP's buckets, one or many, with recomputation and without, are in the formula") {
  for (const DType type : {DType::F32, DType::BF16})
    for (const bool again : {false, true})
      for (const int64_t accumulate : {1, 3})
        for (const int64_t bucket_bytes : {1 << 10, 25 << 20}) {
          CAPTURE(name_of(type), again, accumulate, bucket_bytes);
          if (B % (world().size() * accumulate) != 0) continue;
          const auto [seen, moments] = first_step(again, accumulate, bucket_bytes, type);
          CHECK(memory_differs(seen, moments) == "");
        }
}
