#include "chapters/10_tensor_parallel_training/serial_twin.hpp"

#include <cmath>

namespace course {

void compare_with_serial(const StepResult& sharded, const TrainingOptions& options, const TrainingData& data,
                         Session& session) {
  if (options.config().parameters() > 20'000'000) {
    session.out() << "not compared with one rank: " << options.config().parameters() << " parameters" << std::endl;
    return;
  }
  double worst = 0;
  SignOfLife life(session.world());
  together(session.world(), [&] {
    const std::shared_ptr<void> over(nullptr, [&](void*) { life.finish(); });
    if (session.rank() != 0) return;
    Llama llama(session.backend(), options.config());
    start_weights(llama, options);
    AdamW optimizer(parameters_of(llama));
    CrossEntropy loss(session.backend(), data.train.ignore());
    Trainer trainer(llama, optimizer, loss, data.train, in_order(data.train.samples(), options.batch),
                    {.schedule = options.schedule(), .accumulate = options.accumulate});
    const StepResult serial = trainer.step();
    const auto compare = [&](const char* what, double a, double b) {
      const double difference = std::abs(a - b) / std::abs(b);
      session.out() << "step 1, " << what << ": " << a << " here, " << b << " on one rank, relative difference "
                    << difference << "\n";
      worst = std::max(worst, difference);
    };
    compare("loss", sharded.loss, serial.loss);
    compare("gradient norm", sharded.grad_norm, serial.grad_norm);
  });
  worst = session.world().max(worst);
  // In bf16 a rank rounds its own term of each sum, which one rank does not have.
  const double most = options.compute_type() == DType::F32 ? 1e-4 : 0.02;
  require_shared(worst <= most, "the mesh and one rank differ by ", worst);
}

}  // namespace course
