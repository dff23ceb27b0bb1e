// A whole training: validate, step by step with a progress line and metrics, validate again.
#pragma once

#include <functional>
#include <optional>

#include "chapters/09_llama/metrics.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "chapters/09_llama/training_data.hpp"
#include "common/comm/recorder.hpp"

namespace course {

struct TrainingLoop {
  Trainer& trainer;
  const TrainingOptions& options;
  const TrainingData& data;
  Session& session;
  const Traffic& traffic;
  // Saves, where there is something to save. `stopping`: a signal ends the run after this step.
  std::function<void(int64_t step, bool stopping)> after_step = [](int64_t, bool) {};

  // What the first step of this run sent, held and gave, for those who compare it with a formula and with a serial step.
  Traffic first_traffic;
  MemoryUse first_memory;
  std::optional<StepResult> first;

  // Runs from the trainer's step to options.last_step(). Collective over the mesh. Ctrl-C or SIGTERM on any rank: all
  // finish their step, after_step saves, and EarlyExit ends the program with 130 or 143.
  void run(Metrics& metrics);
  // 3 untimed steps, then options.steps timed ones; prints one JSON line on rank 0.
  void bench(const std::string& program);

 private:
  double validate(Metrics& metrics);
  [[noreturn]] void stop(int signal, int64_t start);
  StepResult step();
  std::string first_non_finite_value();
};

// The weights of --model DIR where it has some, else the initial ones of the seed. With a world all its ranks call, and
// a file that one of them cannot read is all ranks' fault.
void start_weights(Llama& llama, const TrainingOptions& options);
void start_weights(Llama& llama, const TrainingOptions& options, Comm& world);

// The file of --metrics on rank 0: a new one, or what is there carried on. Throws SharedError if it cannot be written.
// Collective over the world.
Metrics open_metrics(const TrainingOptions& options, Session& session, bool append = false);

// The flags of a run, for the first line of its metrics.
nlohmann::json describe(const TrainingOptions& options, int64_t ranks);

// Prints the prompt and what the model makes of it, as it comes. Collective over world.
void show_generated(Llama& llama, const TrainingOptions& options, const TrainingData& data, Session& session);

}  // namespace course
