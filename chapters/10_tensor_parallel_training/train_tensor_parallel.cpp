#include "chapters/10_tensor_parallel_training/train_tensor_parallel.hpp"

#include <nlohmann/json.hpp>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/recompute.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/same_tokens.hpp"
#include "chapters/10_tensor_parallel_training/serial_twin.hpp"
#include "chapters/10_tensor_parallel_training/step_memory.hpp"
#include "chapters/10_tensor_parallel_training/step_traffic.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"

namespace course {

void train_tensor_parallel(const std::string& program, Session& session, const TrainingOptions& options,
                           const DeviceMesh& tp, const Traffic& traffic, const LossMaker& make_loss) {
  const PlanKind plan = plan_kind(options.plan);
  const TrainingData data = load_data(options, session);

  Llama llama(session.backend(), options.config());
  parallelize_module(llama, tp, llama_plan(plan, options.config().attention(), options.loss_parallel));
  recompute(llama, options.recompute);
  start_weights(llama, options, session.world());

  AdamW optimizer(parameters_of(llama));
  const auto loss = make_loss(session.backend(), data.train.ignore());
  DataShare share;  // every rank reads all of a batch
  share.compare = same_tokens(tp);
  GradientSteps gradients;
  gradients.finish = [&](const Parameters& parameters) { finish_gradients(parameters, tp); };
  gradients.norm = [&](const Parameters& parameters) { return gradient_norm(parameters, tp, tp.comm()); };
  Trainer trainer(llama, optimizer, *loss, data.train, in_order(data.train.samples(), options.batch),
                  {.schedule = options.schedule(), .accumulate = options.accumulate}, share, gradients);
  TrainingCheckpoints checkpoints(options, optimizer, tp, session.world(), data.source);
  checkpoints.resume();

  TrainingLoop loop{trainer, options, data, session, traffic,
                    [&](int64_t step, bool stopping) { checkpoints.after_step(step, stopping); }};
  if (options.bench) return loop.bench(program);
  session.out() << idle_in_layers(options.config(), plan, options.seq, options.tp);
  Metrics metrics = open_metrics(options, session, trainer.steps() > 0);
  loop.run(metrics);

  if (loop.first) {
    show_traffic(
        session.out(), loop.first_traffic,
        tensor_parallel_traffic(options.config(), plan, options.loss_parallel, options.batch / options.accumulate,
                                options.seq, options.tp, options.accumulate, options.config().hidden_size,
                                options.recompute == "layer", options.compute_type()));
    show_memory(session.out(), loop.first_memory,
                tensor_parallel_memory(step_sizes(options, tp.coordinate(), options.config().hidden_size, session.backend())));
  }
  if (loop.first && loop.first->step == 1) compare_with_serial(*loop.first, options, data, session);
  if (!options.generate.empty()) show_generated(llama, options, data, session);
  session.out() << "OK" << std::endl;
}

}  // namespace course
