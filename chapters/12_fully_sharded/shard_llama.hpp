// A Llama as FSDP units, and what they send.
#pragma once

#include "chapters/09_llama/llama.hpp"
#include "chapters/10_tensor_parallel_training/step_traffic.hpp"
#include "chapters/12_fully_sharded/fully_shard.hpp"

namespace course {

using FsdpUnits = std::vector<std::shared_ptr<FsdpUnit>>;

// A unit a layer, and the rest (embedding, last norm, head) with the root, which keeps its values from forward to backward.
// No units for one rank: there is nothing to share. With `in_flight` communication overlaps the layers' computing.
FsdpUnits fully_shard_llama(Llama& llama, const DeviceMesh& dp, InFlight* in_flight = nullptr);

// While it lives, every unit is whole: for generation.
class Unsharded {
 public:
  explicit Unsharded(const FsdpUnits& units) : units_(units) {
    for (const auto& unit : units_) unit->hold(true);
  }
  ~Unsharded() {
    for (const auto& unit : units_) unit->hold(false);
  }
  Unsharded(const Unsharded&) = delete;

 private:
  FsdpUnits units_;
};

// What FSDP over dp ranks sends in a step: per micro-batch and layer two all-gathers and a reduce-scatter of the layer's
// parameters, one of each of the root's. The parameters are those that rank tp_rank of tp computes with.
std::vector<ExpectedSent> fsdp_traffic(const LlamaConfig& config, PlanKind plan, int64_t tp, int64_t tp_rank, int64_t dp,
                                       int64_t micro_batches, DType type = DType::F32);
// What Ddp sends: one all-reduce a bucket.
std::vector<ExpectedSent> ddp_traffic(const LlamaConfig& config, int64_t dp, int64_t buckets);

}  // namespace course
