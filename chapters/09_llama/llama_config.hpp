// The sizes of a Llama, under the names of Hugging Face's config.json.
#pragma once

#include <string>

#include "chapters/06_sharded_attention/attention.hpp"

namespace course {

struct LlamaConfig {
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-5, rope_theta = 10000;
  bool rope_interleave = false;  // of the files of weights: the model itself is half-split (chapter 06, rope.hpp)

  AttentionSizes attention() const;
  int64_t parameters() const;  // how many numbers the model learns
  bool operator==(const LlamaConfig&) const = default;
};

// Throws SharedError, with the sizes, unless they are positive and fit together.
void check(const LlamaConfig& config);

// config.json's text. Throws Error, one line that starts with `name`, for what is missing, of the wrong type, or asks
// for what this Llama does not do: another model_type, tied embeddings, biases, scaled RoPE, another activation. RoPE's
// base may stand in rope_theta or, as transformers 5 writes it, in rope_parameters.
LlamaConfig config_from_json(const std::string& text, const std::string& name);
std::string to_json(const LlamaConfig& config);

// One row of the course's table of sizes.
struct Preset {
  const char* name;
  LlamaConfig config;
  int64_t sequence, batch;
};
const Preset& preset(const std::string& name);  // throws UsageError with the names there are
std::vector<std::string> preset_names();

}  // namespace course
