// 10: the training of chapter 09 under a plan. What is new stands in train_tensor_parallel.cpp: the mesh, the plan,
// what is summed over tp, and checkpoints.
#include "chapters/10_tensor_parallel_training/read_options.hpp"
#include "chapters/10_tensor_parallel_training/train_tensor_parallel.hpp"

using namespace course;

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    const std::string program = "10_tensor_parallel_training";
    const TrainingOptions options = read_options(program, "trains a Llama with tensor parallelism",
                                                 {.tp = true, .plan = true, .checkpoints = true}, session);
    Traffic traffic;
    Recorder world(session.world(), traffic);
    const DeviceMesh mesh(world, session.backend(), {{"tp", options.tp}});
    train_tensor_parallel(program, session, options, mesh, traffic, [](Backend& backend, int32_t ignore) {
      return std::make_unique<CrossEntropy>(backend, ignore);
    });
  });
}
