// What one training step sends, by formula, beside what it did send. The formulas know B, S, the model's sizes and the ranks
// alone; the measurement adds up the calls that were made.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/llama_config.hpp"
#include "common/comm/recorder.hpp"

namespace course {

struct ExpectedSent {
  std::string axis;
  Op op;
  int64_t calls;
  double bytes;  // per rank, at the ring volume
};

// The tensor-parallel axis of p ranks: `micro_batches` a step, each of B sequences of S tokens on this rank, and once a step the
// norms' one all-reduce, of norm_size elements a norm (E, or what FSDP leaves of it to this rank). Nothing for p = 1.
// With recompute each layer makes the collectives of its forward twice. `type` is that of activations: 4 or 2 bytes each; the
// norms' gradients and the loss's numbers are f32.
std::vector<ExpectedSent> tensor_parallel_traffic(const LlamaConfig& config, PlanKind plan, bool loss_parallel, int64_t B,
                                                  int64_t S, int64_t p, int64_t micro_batches, int64_t norm_size,
                                                  bool recompute = false, DType type = DType::F32);

// The table "sent: measured | formula", a line for each axis and collective. Throws Error when they differ in a number.
void show_traffic(std::ostream& out, const Traffic& measured, const std::vector<ExpectedSent>& expected);

// A line for each part of a layer that some of p tensor-parallel ranks get nothing of; "" where all have work.
std::string idle_in_layers(const LlamaConfig& config, PlanKind plan, int64_t S, int64_t p);

}  // namespace course
