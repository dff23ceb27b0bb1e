// Grouped-query attention with RoPE, causal, with padding. Serial code: it takes its head counts from what the
// projections give, so the same body runs whole or on a rank's heads. Ainslie et al., arXiv:2305.13245
#pragma once

#include <memory>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/06_sharded_attention/rope.hpp"

namespace course {

// E hidden  H query heads  K key/value heads  D head size  G = H/K
struct AttentionSizes {
  int64_t hidden, heads, kv_heads, head_dim;
  // The rows that must stay together when heads are split by key/value group: G·D of q and o, D of k and v.
  int64_t query_block() const { return heads / kv_heads * head_dim; }
  int64_t kv_block() const { return head_dim; }
};

// Throws SharedError unless all sizes are positive and H is a multiple of K.
void check(const AttentionSizes& sizes);

// What all layers of a model share beside x. The model owns it and sets it before forward; it stays as it is until
// backward.
struct SequenceContext {
  int64_t offset = 0;              // the position of the first query
  const Tensor* attend = nullptr;  // [B,T] i32, 0 for padding, T = S and what is cached; null: all count
  bool cache = false;  // keep keys and values for the next call; offset = the tokens kept so far. Not in training
};

// q_proj.weight [H·D,E]  k_proj.weight, v_proj.weight [K·D,E]  o_proj.weight [E,H·D]   x, y [B,S,E]
// Query head h reads key/value head h / G. A query that sees nothing (padding) gives 0. Memory is linear in S: scores
// live a tile at a time. A rank may hold no head at all; it then adds zeros in o_proj. Throws SharedError when offset +
// S is past the table's positions, and when the cache does not end at offset.
class Attention : public Module {
 public:
  Attention(Backend& backend, AttentionSizes sizes, std::shared_ptr<const RopeTable> rope,
            std::shared_ptr<const SequenceContext> context);
  std::string kind() const override { return "Attention"; }

  Linear &q_proj, &k_proj, &v_proj, &o_proj;

  void forget_cache();  // the next call starts a new sequence, at offset 0

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  Tensor positions(int64_t count) const;  // [S] i32 from offset on
  Tensor heads(DTensor projected) const;  // [B,S,n·D] → [B,S,n,D]
  void require_cache_fits() const;
  void append(Tensor& cached, const Tensor& fresh) const;  // cached [B,T,K,D] gets the new keys or values behind it

  AttentionSizes sizes_;
  std::shared_ptr<const RopeTable> rope_;
  std::shared_ptr<const SequenceContext> context_;
  Tensor cached_k_, cached_v_;   // [B,T,K,D]
  Tensor q_, k_, v_, lse_, at_;  // kept for backward; at_: positions
  DTensor y_;                    // [B,S,H·D], o_proj's input: one tensor, kept by both
};

}  // namespace course
