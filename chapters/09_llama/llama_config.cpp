#include "chapters/09_llama/llama_config.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "common/support/shallow_json.hpp"

namespace course {
namespace {

using nlohmann::json;

//                             vocab  hidden intermediate layers heads kv
const Preset presets[] = {{"tiny", {512, 64, 192, 2, 4, 4}, 64, 8},
                          {"small", {4096, 256, 768, 4, 8, 4}, 256, 8},
                          {"medium", {16384, 512, 1536, 8, 8, 4}, 512, 4},
                          {"article", {50000, 768, 3072, 12, 12, 3}, 512, 64}};

// Fields that change what the model computes in ways this one does not follow: each may be absent, null or as here.
const std::pair<const char*, json> fixed[] = {
    {"model_type", "llama"},        {"hidden_act", "silu"},    {"attention_bias", false},  {"mlp_bias", false},
    {"tie_word_embeddings", false}, {"rope_scaling", nullptr}, {"attention_dropout", 0.0}, {"pretraining_tp", 1}};

constexpr int64_t largest_size = std::numeric_limits<int32_t>::max();  // ids and positions are 32 bits

template <typename T>
T field(const json& from, const char* key, std::optional<T> otherwise = std::nullopt) {
  if (!from.contains(key) || from[key].is_null()) {
    require(otherwise.has_value(), "has no ", key);
    return *otherwise;
  }
  const json& value = from[key];
  require(std::is_integral_v<T> ? value.is_number_integer() : value.is_number(), key, " is ", value.dump(), ", not a ",
          std::is_integral_v<T> ? "whole number" : "number");
  return value.get<T>();
}

bool flag(const json& from, const char* key) {
  const json value = from.value(key, json(false));
  require(value.is_boolean() || value.is_null(), key, " is ", value.dump(), ", neither true nor false");
  return value == true;
}

double rope_theta(const json& from) {
  const double outside = field<double>(from, "rope_theta", 10000.0);
  if (!from.contains("rope_parameters") || from["rope_parameters"].is_null()) return outside;
  const json& rope = from["rope_parameters"];
  require(rope.is_object(), "rope_parameters is ", rope.dump(), ", not an object");
  const json type = rope.value("rope_type", json("default"));
  require(type == "default", "rope_parameters has rope_type ", type.dump(), ", this Llama has \"default\"");
  return field<double>(rope, "rope_theta", outside);
}

}  // namespace

AttentionSizes LlamaConfig::attention() const {
  return {hidden_size, num_attention_heads, num_key_value_heads,
          head_dim > 0 || num_attention_heads == 0 ? head_dim : hidden_size / num_attention_heads};
}

int64_t LlamaConfig::parameters() const {
  const auto [hidden, heads, kv_heads, size] = attention();
  const int64_t attention = 2 * hidden * heads * size + 2 * hidden * kv_heads * size;
  const int64_t layer = attention + 3 * hidden * intermediate_size + 2 * hidden;
  return 2 * vocab_size * hidden + num_hidden_layers * layer + hidden;
}

void check(const LlamaConfig& c) {
  const std::pair<const char*, int64_t> sizes[] = {{"vocab_size", c.vocab_size},
                                                   {"hidden_size", c.hidden_size},
                                                   {"intermediate_size", c.intermediate_size},
                                                   {"num_hidden_layers", c.num_hidden_layers},
                                                   {"num_attention_heads", c.num_attention_heads},
                                                   {"num_key_value_heads", c.num_key_value_heads},
                                                   {"head_dim", c.head_dim},
                                                   {"max_position_embeddings", c.max_position_embeddings}};
  for (const auto& [name, size] : sizes)
    require_shared(size <= largest_size, name, " is ", size, ", sizes end at ", largest_size);
  require_shared(
      c.vocab_size > 0 && c.intermediate_size > 0 && c.num_hidden_layers > 0 && c.max_position_embeddings > 0,
      "a Llama needs sizes above 0, not vocab_size ", c.vocab_size, ", intermediate_size ", c.intermediate_size,
      ", num_hidden_layers ", c.num_hidden_layers, ", max_position_embeddings ", c.max_position_embeddings);
  require_shared(c.head_dim >= 0, "head_dim ", c.head_dim, " is negative");
  require_shared(c.head_dim > 0 || (c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads == 0),
                 "hidden_size ", c.hidden_size, " is not a multiple of num_attention_heads ", c.num_attention_heads);
  require_shared(c.rms_norm_eps >= 0 && c.rope_theta > 0, "rms_norm_eps ", c.rms_norm_eps, " and rope_theta ",
                 c.rope_theta, " must be above 0");
  check(c.attention());
  require_shared(c.attention().head_dim % 2 == 0, "head_dim ", c.attention().head_dim, " is odd: RoPE turns pairs");
  const auto [hidden, heads, kv_heads, size] = c.attention();
  const double layer = 2.0 * hidden * size * (heads + kv_heads) + 3.0 * hidden * c.intermediate_size;
  const double parameters = 2.0 * c.vocab_size * hidden + c.num_hidden_layers * layer;
  require_shared(parameters < 1e16, "about ", parameters, " parameters: more than this program can count");
}

LlamaConfig config_from_json(const std::string& text, const std::string& name) {
  try {
    const json from = parse_shallow_json(text);
    require(from.is_object(), "is not a JSON object");
    for (const auto& [key, value] : fixed)
      require(!from.contains(key) || from[key].is_null() || from[key] == value, key, " is ",
              from.contains(key) ? from[key].dump() : "", ", this Llama has ", value.dump());
    LlamaConfig c{};
    c.vocab_size = field<int64_t>(from, "vocab_size");
    c.hidden_size = field<int64_t>(from, "hidden_size");
    c.intermediate_size = field<int64_t>(from, "intermediate_size");
    c.num_hidden_layers = field<int64_t>(from, "num_hidden_layers");
    c.num_attention_heads = field<int64_t>(from, "num_attention_heads");
    c.num_key_value_heads = field<int64_t>(from, "num_key_value_heads", c.num_attention_heads);
    c.head_dim = field<int64_t>(from, "head_dim", 0);
    c.max_position_embeddings = field<int64_t>(from, "max_position_embeddings", 2048);
    c.rms_norm_eps = field<double>(from, "rms_norm_eps", 1e-6);
    c.rope_theta = rope_theta(from);
    c.rope_interleave = flag(from, "rope_interleave");
    check(c);
    return c;
  } catch (const json::exception& error) {
    fail(cat(name, ": ", error.what()));
  } catch (const Error& error) {
    fail(cat(name, ": ", error.what()));
  }
}

std::string to_json(const LlamaConfig& c) {
  json out = {{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"vocab_size", c.vocab_size},
              {"hidden_size", c.hidden_size},
              {"intermediate_size", c.intermediate_size},
              {"num_hidden_layers", c.num_hidden_layers},
              {"num_attention_heads", c.num_attention_heads},
              {"num_key_value_heads", c.num_key_value_heads},
              {"head_dim", c.attention().head_dim},
              {"max_position_embeddings", c.max_position_embeddings},
              {"rms_norm_eps", c.rms_norm_eps},
              {"rope_theta", c.rope_theta},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"mlp_bias", false},
              {"tie_word_embeddings", false},
              {"torch_dtype", "float32"}};
  if (c.rope_interleave) out["rope_interleave"] = true;
  return out.dump(2) + "\n";
}

const Preset& preset(const std::string& name) {
  std::string all;
  for (const auto& one : presets) {
    if (name == one.name) return one;
    all += (all.empty() ? "" : ", ") + std::string(one.name);
  }
  throw UsageError(cat("--preset ", name, ": there are ", all));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& one : presets) names.emplace_back(one.name);
  return names;
}

}  // namespace course
