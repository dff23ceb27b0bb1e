#include "chapters/12_fully_sharded/shard_llama.hpp"

#include <algorithm>

#include "common/chunk.hpp"

namespace course {

FsdpUnits fully_shard_llama(Llama& llama, const DeviceMesh& dp, InFlight* in_flight) {
  FsdpUnits units;
  if (dp.size() == 1) return units;
  for (DecoderLayer* layer : llama.model.layers.layers()) units.push_back(fully_shard(*layer, dp));
  units.push_back(fully_shard(llama, dp, false));
  if (in_flight) {
    FsdpUnits order = units;
    std::ranges::rotate(order, order.end() - 1);  // the root first
    run_in_order(order, *in_flight);
  }
  return units;
}

std::vector<ExpectedSent> fsdp_traffic(const LlamaConfig& c, PlanKind plan, int64_t tp, int64_t tp_rank, int64_t dp,
                                       int64_t micro_batches, DType type) {
  if (dp == 1) return {};
  const AttentionSizes sizes = c.attention();
  const auto part = [&](int64_t n, int64_t block = 1) { return chunk(n, tp, tp_rank, block).size; };
  const int64_t query = sizes.heads * sizes.head_dim, key = sizes.kv_heads * sizes.head_dim;
  const bool whole_heads = plan != PlanKind::Article;
  const int64_t q = part(query, whole_heads ? sizes.query_block() : 1), kv = part(key, whole_heads ? sizes.kv_block() : 1);
  const double layer = static_cast<double>(c.hidden_size * (2 * q + 2 * kv + 3 * part(c.intermediate_size) + 2));
  const double root = static_cast<double>(c.hidden_size * (2 * part(c.vocab_size) + 1));
  const int64_t L = c.num_hidden_layers, m = micro_batches;
  const double share = static_cast<double>(dp - 1) / static_cast<double>(dp);
  const double value = static_cast<double>(size_of(type)), gradient = 4;  // bytes of an element
  return {{"dp", Op::AllGather, m * (2 * L + 1), m * share * value * (2 * static_cast<double>(L) * layer + root)},
          {"dp", Op::ReduceScatter, m * (L + 1), m * share * gradient * (static_cast<double>(L) * layer + root)}};
}

std::vector<ExpectedSent> ddp_traffic(const LlamaConfig& c, int64_t dp, int64_t buckets) {
  if (dp == 1) return {};
  return {{"dp", Op::AllReduce, buckets, ring_bytes(Op::AllReduce, 4.0 * static_cast<double>(c.parameters()), static_cast<int>(dp))}};
}

}  // namespace course
