// 11: the training of chapter 10 with the loss on parts of the vocabulary. The logits are never gathered.
#include <nlohmann/json.hpp>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/read_options.hpp"
#include "chapters/10_tensor_parallel_training/serial_twin.hpp"
#include "chapters/10_tensor_parallel_training/step_traffic.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"
#include "chapters/11_loss_parallel/two_losses.hpp"

using namespace course;

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    TrainingOptions options = read_options("11_loss_parallel", "trains a Llama with the loss cut by vocabulary",
                                           {.tp = true, .plan = true, .checkpoints = true}, session);
    options.loss_parallel = true;
    const PlanKind plan = plan_kind(options.plan);
    Traffic traffic;
    Recorder world(session.world(), traffic);
    const DeviceMesh mesh(world, session.backend(), {{"tp", options.tp}});
    if (!options.bench) compare_losses(session.out(), mesh, traffic, options);
    const TrainingData data = load_data(options, session);

    Llama llama(session.backend(), options.config());
    parallelize_module(llama, mesh, llama_plan(plan, options.config().attention(), true));
    start_weights(llama, options);

    AdamW optimizer(parameters_of(llama));
    LossParallel loss(session.backend(), data.train.ignore());
    GradientSteps gradients;
    gradients.finish = [&](const Parameters& parameters) { finish_gradients(parameters, mesh); };
    gradients.norm = [&](const Parameters& parameters) { return gradient_norm(parameters, mesh, world); };
    Trainer trainer(llama, optimizer, loss, data.train, in_order(data.train.samples(), options.batch),
                    {.schedule = options.schedule(), .accumulate = options.accumulate}, {}, gradients);
    TrainingCheckpoints checkpoints(options, optimizer, mesh, session.world());
    checkpoints.resume();

    TrainingLoop loop{trainer, options, data, session, traffic, [&](int64_t step) { checkpoints.after_step(step); }};
    if (options.bench) return loop.bench("11_loss_parallel");
    Metrics metrics(options.metrics, session.rank() == 0, trainer.steps() > 0);
    loop.run(metrics);

    if (loop.first)
      show_traffic(session.out(), loop.first_traffic,
                   tensor_parallel_traffic(options.config(), plan, true, options.batch / options.accumulate, options.seq,
                                           options.tp, options.accumulate, options.config().hidden_size));
    if (loop.first && loop.first->step == 1) compare_with_serial(*loop.first, options, data, session);
    if (!options.generate.empty()) show_generated(llama, options, data, session);
    session.out() << "OK" << std::endl;
  });
}
