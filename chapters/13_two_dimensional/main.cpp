// 13: two axes, tensor parallelism inside a layer and FSDP across. The parts of chapters 08 to 12, put together.
#include <nlohmann/json.hpp>

#include "chapters/09_llama/recompute.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/read_options.hpp"
#include "chapters/10_tensor_parallel_training/same_tokens.hpp"
#include "chapters/10_tensor_parallel_training/serial_twin.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"
#include "chapters/11_loss_parallel/loss_parallel.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "chapters/12_fully_sharded/sharded_memory.hpp"
#include "common/chunk.hpp"

using namespace course;

namespace {

std::unique_ptr<Loss> make_loss(const TrainingOptions& options, Backend& backend, int32_t ignore) {
  if (options.loss_parallel) return std::make_unique<LossParallel>(backend, ignore);
  return std::make_unique<CrossEntropy>(backend, ignore);
}

std::vector<ExpectedSent> expected_traffic(const TrainingOptions& o, const DeviceMesh& mesh) {
  const PlanKind plan = plan_kind(o.plan);
  const int64_t norm_size = chunk(o.config().hidden_size, o.dp, mesh["dp"].coordinate()).size;
  auto all = tensor_parallel_traffic(o.config(), plan, o.loss_parallel, o.batch / o.dp / o.accumulate, o.seq, o.tp, o.accumulate,
                                     norm_size, o.recompute == "layer", o.compute_type());
  for (const auto& sent : fsdp_traffic(o.config(), plan, o.tp, mesh["tp"].coordinate(), o.dp, o.accumulate,
                                        o.compute_type())) all.push_back(sent);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    const TrainingOptions options =
        read_options("13_two_dimensional", "trains a Llama on a (dp, tp) mesh: FSDP across, tensor parallelism inside",
                     {.tp = true, .dp = true, .plan = true, .loss_parallel = true, .checkpoints = true}, session);
    InFlight in_flight;
    session.observed().observe([&](const Kernel&) { in_flight.poll(); });
    Traffic traffic;
    Recorder world(session.world(), traffic);
    const DeviceMesh mesh(world, session.backend(), {{"dp", options.dp}, {"tp", options.tp}});
    const TrainingData data = load_data(options, session);
    // Tensor parallelism cuts first, FSDP cuts the pieces; only then are there weights.
    Llama llama(session.backend(), options.config());
    parallelize_module(llama, mesh["tp"],
                       llama_plan(plan_kind(options.plan), options.config().attention(), options.loss_parallel));
    recompute(llama, options.recompute);
    const FsdpUnits units = fully_shard_llama(llama, mesh["dp"], &in_flight);
    start_weights(llama, options, session.world());

    AdamW optimizer(parameters_of(llama));
    const auto loss = make_loss(options, session.backend(), data.train.ignore());
    DataShare share = share_over(mesh["dp"]);
    share.compare = same_tokens(mesh["tp"]);
    // FSDP's hooks have summed over dp when backward is over. What is left: the sums over tp, and the norm over both.
    GradientSteps gradients;
    gradients.finish = [&](const Parameters& parameters) { finish_gradients(parameters, mesh["tp"]); };
    gradients.norm = [&](const Parameters& parameters) { return gradient_norm(parameters, mesh, world); };
    Trainer trainer(llama, optimizer, *loss, data.train, in_order(data.train.samples(), options.batch),
                    {.schedule = options.schedule(), .accumulate = options.accumulate}, share, gradients);
    TrainingCheckpoints checkpoints(options, optimizer, mesh, session.world(), data.source);
    checkpoints.resume();

    TrainingLoop loop{trainer, options, data, session, traffic,
                      [&](int64_t step, bool stopping) { checkpoints.after_step(step, stopping); }};
    if (options.bench) return loop.bench("13_two_dimensional");
    session.out() << "mesh: " << mesh.show() << ", plan " << options.plan
                  << (options.loss_parallel ? ", loss parallel" : "") << std::endl
                  << idle_in_layers(options.config(), plan_kind(options.plan), options.seq, options.tp);
    Metrics metrics = open_metrics(options, session, trainer.steps() > 0);
    loop.run(metrics);

    if (loop.first) {
      show_traffic(session.out(), loop.first_traffic, expected_traffic(options, mesh));
      const int64_t dp_rank = mesh["dp"].coordinate();
      const StepSizes sizes = step_sizes(options, mesh["tp"].coordinate(),
                                         chunk(options.config().hidden_size, options.dp, dp_rank).size, session.backend());
      show_memory(session.out(), loop.first_memory,
                  fully_sharded_memory(tensor_parallel_memory(sizes), sizes, options.dp, dp_rank));
    }
    if (loop.first && loop.first->step == 1) compare_with_serial(*loop.first, options, data, session);
    if (!options.generate.empty()) {
      const Unsharded whole(units);
      show_generated(llama, options, data, session);
    }
    session.out() << "OK" << std::endl;
  });
}
