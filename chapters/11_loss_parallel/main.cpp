// 11: the training of chapter 10 with the loss on parts of the vocabulary. The logits are never gathered.
#include "chapters/10_tensor_parallel_training/read_options.hpp"
#include "chapters/10_tensor_parallel_training/train_tensor_parallel.hpp"
#include "chapters/11_loss_parallel/two_losses.hpp"

using namespace course;

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    const std::string program = "11_loss_parallel";
    TrainingOptions options = read_options(program, "trains a Llama with the loss cut by vocabulary",
                                           {.tp = true, .plan = true, .checkpoints = true}, session);
    options.loss_parallel = true;
    Traffic traffic;
    Recorder world(session.world(), traffic);
    const DeviceMesh mesh(world, session.backend(), {{"tp", options.tp}});
    if (!options.bench) compare_losses(session.out(), mesh, traffic, options);
    train_tensor_parallel(program, session, options, mesh, traffic, [](Backend& backend, int32_t ignore) {
      return std::make_unique<LossParallel>(backend, ignore);
    });
  });
}
