// What the tests of chapter 10 share: the chapter's training, put together as its main.cpp does, without files and
// flags.
#pragma once

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/10_tensor_parallel_training/same_tokens.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {

inline constexpr PlanKind all_plans[] = {PlanKind::Basic, PlanKind::Sequence, PlanKind::Article};

struct TensorParallel {
  TensorParallel(Comm& comm, const LlamaConfig& config, PlanKind plan, DType type = DType::F32)
      : mesh(comm, backend(), {{"tp", comm.size()}}), llama(backend(), config), comm_(&comm) {
    parallelize_module(llama, mesh, llama_plan(plan, config.attention(), false));
    compute_in(llama, type);
  }

  // Once the weights are filled. `data` outlives this.
  void train_on(const TokenData& data, Sampler next, const TrainerOptions& options, AdamWOptions adamw = {},
                int32_t ignore = -100) {
    optimizer = std::make_unique<AdamW>(parameters_of(llama), adamw);
    loss_ = std::make_unique<CrossEntropy>(backend(), ignore);
    GradientSteps gradients;
    gradients.finish = [this](const Parameters& p) { finish_gradients(p, mesh); };
    gradients.norm = [this](const Parameters& p) { return gradient_norm(p, mesh, *comm_); };
    DataShare share;
    share.compare = same_tokens(mesh);
    trainer = std::make_unique<Trainer>(llama, *optimizer, *loss_, data, std::move(next), options, share, gradients);
  }

  DeviceMesh mesh;
  Llama llama;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;

 private:
  Comm* comm_;
  std::unique_ptr<Loss> loss_;
};

// Chapter 09's training: no mesh, no plan.
struct Serial {
  Serial(const LlamaConfig& config, uint64_t seed, const TokenData& data, int64_t batch, const TrainerOptions& options,
         DType type = DType::F32)
      : llama(backend(), config), loss(backend(), -100) {
    compute_in(llama, type);
    initialize(llama, seed);
    optimizer = std::make_unique<AdamW>(parameters_of(llama));
    trainer = std::make_unique<Trainer>(llama, *optimizer, loss, data, in_order(data.samples(), batch), options);
  }
  Llama llama;
  CrossEntropy loss;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
};

}  // namespace course::test
