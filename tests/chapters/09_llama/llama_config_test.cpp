// config.json: what is written is read again; what this Llama cannot do is refused with one line.
#include "chapters/09_llama/llama_config.hpp"

#include <nlohmann/json.hpp>

#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

// The message for a config.json with these keys changed (null: taken away).
std::string refusal(const json& changes) {
  json config = json::parse(to_json(little_config()));
  for (const auto& [key, value] : changes.items())
    if (value.is_null())
      config.erase(key);
    else
      config[key] = value;
  try {
    config_from_json(config.dump(), "there/config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

LlamaConfig with(const json& changes) {
  json config = json::parse(to_json(little_config()));
  config.update(changes);
  return config_from_json(config.dump(), "there/config.json");
}

}  // namespace

TEST_CASE("config.json: a round trip keeps every size") {
  LlamaConfig odd{101, 48, 128, 3, 6, 3};
  odd.head_dim = 10;
  odd.max_position_embeddings = 77;
  odd.rms_norm_eps = 3e-6;
  odd.rope_theta = 500000;
  CHECK(config_from_json(to_json(odd), "x") == odd);
  for (const auto& name : preset_names()) {
    LlamaConfig config = preset(name).config;
    config.head_dim = config.attention().head_dim;  // written out
    CHECK(config_from_json(to_json(config), name) == config);
  }
}

TEST_CASE("config.json: what may be absent has the values that transformers gives it") {
  const LlamaConfig c =
      config_from_json(R"({"vocab_size": 9, "hidden_size": 8, "intermediate_size": 5, "num_hidden_layers": 1,
    "num_attention_heads": 4, "head_dim": null, "rope_scaling": null, "some_key_of_later_years": [1]})",
                       "x");
  CHECK(c.num_key_value_heads == 4);
  CHECK(c.attention().head_dim == 2);
  CHECK(c.max_position_embeddings == 2048);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 10000);
}

TEST_CASE("config.json: RoPE's base, in its old place and its new one") {
  CHECK(with({{"rope_theta", 5e5}}).rope_theta == 5e5);
  CHECK(with({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7e4}}}}).rope_theta == 7e4);
  CHECK(with({{"rope_theta", 300}, {"rope_parameters", {{"rope_type", "default"}}}}).rope_theta == 300);
}

TEST_CASE("config.json: refusals say the file, the key and the value in one line") {
  const std::pair<json, std::string> cases[] = {
      {{{"vocab_size", nullptr}}, "vocab_size"},
      {{{"hidden_size", "24"}}, "hidden_size is \"24\""},
      {{{"num_hidden_layers", 2.5}}, "num_hidden_layers is 2.5"},
      {{{"rms_norm_eps", true}}, "rms_norm_eps is true"},
      {{{"num_hidden_layers", 0}}, "num_hidden_layers 0"},
      {{{"num_attention_heads", 0}, {"head_dim", nullptr}}, "num_attention_heads 0"},
      {{{"num_attention_heads", 5}, {"head_dim", nullptr}}, "24 is not a multiple of num_attention_heads 5"},
      {{{"num_key_value_heads", 4}}, "6 query heads"},
      {{{"head_dim", -3}}, "head_dim -3"},
      {{{"rope_theta", 0}}, "rope_theta 0"},
      {{{"tie_word_embeddings", true}}, "tie_word_embeddings is true"},
      {{{"attention_bias", true}}, "attention_bias is true"},
      {{{"mlp_bias", true}}, "mlp_bias is true"},
      {{{"hidden_act", "gelu"}}, "hidden_act is \"gelu\""},
      {{{"model_type", "qwen2"}}, "model_type is \"qwen2\""},
      {{{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}, "rope_scaling"},
      {{{"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 5e5}}}}, "rope_type \"llama3\""},
      {{{"rope_parameters", 3}}, "rope_parameters is 3"},
      {{{"rope_interleave", 1}}, "rope_interleave is 1"},
  };
  for (const auto& [changes, words] : cases) {
    const std::string said = refusal(changes);
    INFO(changes.dump() << ": " << said);
    CHECK(said.starts_with("there/config.json: "));
    CHECK(said.find(words) != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
  for (const std::string text : {"", "{", "[1]", "\"vocab_size\"", "{\"vocab_size\": 12,}", "\xff"}) {
    INFO(text);
    CHECK_THROWS_AS(config_from_json(text, "x"), Error);
  }
}

TEST_CASE("presets have the sizes of the table") {
  CHECK(preset("article").config.parameters() == 179448576);
  CHECK(preset("article").sequence == 512);
  CHECK(preset("article").batch == 64);
  CHECK(preset("article").config.attention().head_dim == 64);
  CHECK_THROWS_AS(preset("huge"), UsageError);
  for (const auto& name : {"tiny", "small"}) {
    Llama llama(backend(), preset(name).config);
    int64_t count = 0;
    for (Parameter* p : parameters_of(llama)) count += numel(p->global());
    CHECK(count == preset(name).config.parameters());
  }
}
