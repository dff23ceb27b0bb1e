// What the tests of chapter 13 share: the chapter's training on any mesh, without its files, flags and text.
#pragma once

#include "chapters/08_parallel_plan/parallel_plan.hpp"
#include "chapters/09_llama/recompute.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/same_tokens.hpp"
#include "chapters/11_loss_parallel/loss_parallel.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {

struct MeshSize {
  int64_t dp, tp;
};

// Every dp × tp of so many ranks.
inline std::vector<MeshSize> meshes_of(int64_t ranks) {
  std::vector<MeshSize> all;
  for (int64_t dp = 1; dp <= ranks; ++dp)
    if (ranks % dp == 0) all.push_back({dp, ranks / dp});
  return all;
}

struct PlanChoice {
  PlanKind plan = PlanKind::Sequence;
  bool loss_parallel = false, recompute = false;
  DType type = DType::F32;
  InFlight* in_flight = nullptr;  // with it FSDP communicates while layers compute, as the program does
};

inline std::vector<PlanChoice> all_plans() {
  std::vector<PlanChoice> all;
  for (const PlanKind plan : {PlanKind::Basic, PlanKind::Sequence, PlanKind::Article})
    for (const bool loss_parallel : {false, true}) all.push_back({plan, loss_parallel});
  return all;
}

inline std::string show(const MeshSize& size, const PlanChoice& choice) {
  return cat("dp ", size.dp, " × tp ", size.tp, ", plan ", name_of(choice.plan),
             choice.loss_parallel ? ", loss parallel" : "", choice.type == DType::BF16 ? ", mixed" : "");
}

// Sizes that neither 2, 3 nor 4 ranks share evenly: vocabulary 61, hidden 22, intermediate 41, 3 key/value groups.
inline LlamaConfig uneven_config() {
  LlamaConfig c{61, 22, 41, 2, 6, 3};
  c.head_dim = 4;
  c.max_position_embeddings = 32;
  return c;
}

// The parts of chapter 13, put together as its main.cpp does. comm: the ranks of the mesh.
struct TwoDimensional {
  TwoDimensional(Comm& comm, const MeshSize& size, const LlamaConfig& config, const PlanChoice& choice = {})
      : mesh(comm, backend(), {{"dp", size.dp}, {"tp", size.tp}}), llama(backend(), config), comm_(&comm) {
    parallelize_module(llama, mesh["tp"], llama_plan(choice.plan, config.attention(), choice.loss_parallel));
    if (choice.recompute) recompute(llama, "layer");
    units = fully_shard_llama(llama, mesh["dp"], choice.in_flight);
    compute_in(llama, choice.type);
    gradients.finish = [this](const Parameters& p) { finish_gradients(p, mesh["tp"]); };
    gradients.norm = [this](const Parameters& p) { return gradient_norm(p, mesh, *comm_); };
    share = share_over(mesh["dp"]);
    share.compare = same_tokens(mesh["tp"]);
    loss_parallel_ = choice.loss_parallel;
  }

  // Once the weights are filled. `data` outlives this.
  void train_on(const TokenData& data, Sampler next, const TrainerOptions& options, AdamWOptions adamw = {},
                int32_t ignore = -100) {
    optimizer = std::make_unique<AdamW>(parameters_of(llama), adamw);
    if (loss_parallel_)
      loss_ = std::make_unique<LossParallel>(backend(), ignore);
    else
      loss_ = std::make_unique<CrossEntropy>(backend(), ignore);
    trainer = std::make_unique<Trainer>(llama, *optimizer, *loss_, data, std::move(next), options, share, gradients);
  }

  DeviceMesh mesh;
  Llama llama;
  FsdpUnits units;
  DataShare share;  // these two: to change before train_on
  GradientSteps gradients;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;

 private:
  Comm* comm_;
  bool loss_parallel_;
  std::unique_ptr<Loss> loss_;
};

// A little training on random tokens: batches of 12 samples of 7, shared evenly by 1, 2, 3 and 4 ranks of dp.
struct Little {
  static constexpr int64_t B = 12, S = 7;
  TokenData data{S, random_ids("stream", 4 * B * S + 1, 61)};
  TrainerOptions options{.schedule = {0.01, 2, 12}};

  std::unique_ptr<TwoDimensional> run(Comm& comm, const MeshSize& size, const PlanChoice& choice = {}) const {
    auto run = std::make_unique<TwoDimensional>(comm, size, uneven_config(), choice);
    initialize(run->llama, 5);
    start(*run);
    return run;
  }
  void start(TwoDimensional& run) const { run.train_on(data, in_order(data.samples(), B), options); }
};

}  // namespace course::test
