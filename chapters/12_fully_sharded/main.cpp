// 12: data parallelism. --ddp keeps the whole model on every rank and sums gradients; without it FSDP keeps a part of it.
#include <nlohmann/json.hpp>

#include "chapters/09_llama/recompute.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/read_options.hpp"
#include "chapters/10_tensor_parallel_training/serial_twin.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"
#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "chapters/12_fully_sharded/sharded_memory.hpp"
#include "common/support/table.hpp"

using namespace course;

namespace {

int64_t bytes_owned(const Parameters& parameters) {
  int64_t sum = 0;
  for (Parameter* p : parameters) sum += p->owned().bytes();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    const TrainingOptions options = read_options("12_fully_sharded", "trains a Llama on other samples per rank, its parameters shared",
                                                 {.dp = true, .ddp = true, .checkpoints = true}, session);
    InFlight in_flight;
    session.observed().observe([&](const Kernel&) { in_flight.poll(); });
    Traffic traffic;
    Recorder world(session.world(), traffic);
    const DeviceMesh mesh(world, session.backend(), {{"dp", options.dp}});
    const TrainingData data = load_data(options, session);

    Llama llama(session.backend(), options.config());
    recompute(llama, options.recompute);
    const FsdpUnits units = options.ddp ? FsdpUnits() : fully_shard_llama(llama, mesh, &in_flight);
    start_weights(llama, options, session.world());

    AdamW optimizer(parameters_of(llama));
    Ddp ddp(optimizer.parameters(), mesh, options.bucket_mb << 20);
    if (options.ddp) ddp.reduce_during_backward(llama, options.accumulate, in_flight);
    CrossEntropy loss(session.backend(), data.train.ignore());
    GradientSteps gradients;
    gradients.finish = [&](const Parameters&) {
      if (options.ddp) ddp.reduce_gradients();
    };
    gradients.norm = [&](const Parameters& parameters) { return gradient_norm(parameters, mesh, world); };
    Trainer trainer(llama, optimizer, loss, data.train, in_order(data.train.samples(), options.batch),
                    {.schedule = options.schedule(), .accumulate = options.accumulate}, share_over(mesh), gradients);
    TrainingCheckpoints checkpoints(options, optimizer, mesh, session.world(), data.source);
    checkpoints.resume();

    TrainingLoop loop{trainer, options, data, session, traffic,
                      [&](int64_t step, bool stopping) { checkpoints.after_step(step, stopping); }};
    if (options.bench) return loop.bench("12_fully_sharded");
    session.out() << "rank 0 owns " << human_bytes(bytes_owned(optimizer.parameters())) << " of "
                  << human_bytes(4 * options.config().parameters()) << " of parameters, and as much of gradients and twice of moments"
                  << std::endl;
    Metrics metrics = open_metrics(options, session, trainer.steps() > 0);
    loop.run(metrics);

    if (loop.first) {
      show_traffic(session.out(), loop.first_traffic,
                   options.ddp ? ddp_traffic(options.config(), options.dp, ddp.buckets())
                               : fsdp_traffic(options.config(), PlanKind::Basic, 1, 0, options.dp, options.accumulate,
                                            options.compute_type()));
      StepSizes sizes = step_sizes(options, 0, options.config().hidden_size, session.backend());
      sizes.plan = PlanKind::Basic;
      const auto moments = tensor_parallel_memory(sizes);
      show_memory(session.out(), loop.first_memory,
                  options.ddp ? data_parallel_memory(moments, sizes, options.dp, ddp.bucket_bytes())
                              : fully_sharded_memory(moments, sizes, options.dp, mesh.coordinate()));
    }
    if (loop.first && loop.first->step == 1) compare_with_serial(*loop.first, options, data, session);
    if (!options.generate.empty()) {
      const Unsharded whole(units);
      show_generated(llama, options, data, session);
    }
    session.out() << "OK" << std::endl;
  });
}
