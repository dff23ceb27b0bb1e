// The flags of the training programs (chapters 09 to 13): one vocabulary, each program takes what means something to it.
#pragma once

#include <string>
#include <vector>

#include "chapters/09_llama/generate.hpp"
#include "chapters/09_llama/llama_config.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"

namespace course {

struct TrainingOptions {
  std::string preset = "tiny", model;  // model: a folder with config.json, and weights and tokenizer where it has them
  int64_t tp = 0, dp = 0;              // 0: the ranks left
  std::string plan = "sequence";
  bool loss_parallel = false, ddp = false;
  int64_t batch = 0, seq = 0;  // 0: the preset's
  int64_t steps = 100, warmup = -1, stop_after = 0, accumulate = 1, seed = 1;
  double lr = 1e-3;
  std::vector<std::string> text;
  std::string tokenizer, samples = "stream", dtype = "f32", recompute = "none";
  std::string save, resume, metrics, generate, dump_tensors;
  int64_t save_every = 0, bucket_mb = 25;
  GenerateOptions sampling;
  bool quiet = false, bench = false, watch_gradients = false, other_text = false;

  // Which sets of flags a program takes beside those of every training program.
  struct Takes {
    bool tp = false, dp = false, plan = false, loss_parallel = false, ddp = false, checkpoints = false;
  };
  void add_to(Cli& cli, const Takes& takes);
  // After Cli::parse: fills in what the preset says, and checks what needs more than one flag. Throws UsageError.
  void settle(const Cli& cli, int64_t ranks);
  // After settle: where a rank's device has no bf16, `mixed` becomes f32, and rank 0 says so. Collective.
  void settle_dtype(Session& session);
  // After both: throws UsageError where the model or a batch cannot be held, however it is cut. A lower bound.
  void require_room(Session& session) const;

  LlamaConfig config() const { return config_; }
  DType compute_type() const { return dtype == "mixed" ? DType::BF16 : DType::F32; }  // of activations, and weights in use
  LrSchedule schedule() const { return {lr, warmup, steps}; }
  bool time_table() const { return !quiet && !bench; }
  bool checkpoints() const { return takes_.checkpoints; }  // --save keeps what --resume takes, not a model alone
  int64_t last_step() const { return stop_after > 0 ? std::min(steps, stop_after) : steps; }

 private:
  Takes takes_;
  LlamaConfig config_{};
};

}  // namespace course
