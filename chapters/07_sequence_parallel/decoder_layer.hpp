// One layer of a Llama: two blocks, each behind a norm, each added to the stream that it read (pre-norm, two
// residuals).
#pragma once

#include "chapters/05_sharded_mlp/mlp.hpp"
#include "chapters/06_sharded_attention/attention.hpp"
#include "chapters/07_sequence_parallel/rms_norm.hpp"

namespace course {

// x, y [B,S,E], or a slice of S with its layout. Stream and blocks must agree in layout: adding two that differ throws.
class DecoderLayer : public Module {
 public:
  DecoderLayer(Backend& backend, AttentionSizes sizes, int64_t intermediate, double eps,
               std::shared_ptr<const RopeTable> rope, std::shared_ptr<const SequenceContext> context);
  std::string kind() const override { return "DecoderLayer"; }

  RmsNorm& input_layernorm;
  Attention& self_attn;
  RmsNorm& post_attention_layernorm;
  SwiGluMlp& mlp;

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
};

}  // namespace course
