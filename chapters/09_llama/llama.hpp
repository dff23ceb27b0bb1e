// The Llama: a serial model that knows nothing of parallelism. What is parallel stands in a plan (chapter 08).
// Touvron et al., arXiv:2302.13971; the names are Hugging Face's.
//
//   model.embed_tokens → model.layers.0 … → model.norm → lm_head
#pragma once

#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/07_sequence_parallel/decoder_layer.hpp"
#include "chapters/09_llama/llama_config.hpp"

namespace course {

// Modules one after the other, named 0, 1, ...
class DecoderStack : public Module {
 public:
  using Module::Module;
  std::string kind() const override { return "DecoderStack"; }
  DecoderLayer& append(std::unique_ptr<DecoderLayer> layer);
  const std::vector<DecoderLayer*>& layers() const { return layers_; }

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  std::vector<DecoderLayer*> layers_;
};

// ids [B,S] i32 → hidden [B,S,E].
class LlamaModel : public Module {
 public:
  LlamaModel(Backend& backend, const LlamaConfig& config, std::shared_ptr<const SequenceContext> context);
  std::string kind() const override { return "LlamaModel"; }

  Embedding& embed_tokens;
  DecoderStack& layers;
  RmsNorm& norm;

 private:
  DTensor run_forward(DTensor ids) override;
  DTensor run_backward(DTensor dy) override;
};

// ids [B,S] i32 → logits [B,S,V].
class Llama : public Module {
 public:
  Llama(Backend& backend, const LlamaConfig& config);  // throws SharedError when the sizes do not fit together
  std::string kind() const override { return "Llama"; }

  const LlamaConfig& config() const { return config_; }
  SequenceContext& context() { return *context_; }
  void forget_cache();

 private:  // before the modules, which share it
  LlamaConfig config_;
  std::shared_ptr<SequenceContext> context_ = std::make_shared<SequenceContext>();

 public:
  LlamaModel& model;
  Linear& lm_head;

 private:
  DTensor run_forward(DTensor ids) override;
  DTensor run_backward(DTensor dlogits) override;
};

// Weights under their names in one safetensors file: what Hugging Face's LlamaForCausalLM reads and writes.
// load fills every parameter's part from the file; each rank opens it. Throws Error for a name that is missing or
// has no place in the model, and for a shape that differs. save takes the parameters whole: on one rank, or with all
// parts gathered. Where config says rope_interleave, the rows of q and k stand in the file in that order.
void load_weights(Llama& llama, const std::string& path);
void save_weights(Llama& llama, const std::string& path);

}  // namespace course
