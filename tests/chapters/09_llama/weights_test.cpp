// model.safetensors: Hugging Face's names, there and back; files that do not fit.
#include <set>

#include "common/support/safetensors.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

std::string refusal(Llama& llama, const std::string& path) {
  try {
    load_weights(llama, path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Writes the little model's tensors but for `without`, with one more, or with one transposed.
void write(const std::string& path, Llama& llama, const std::string& without, const std::string& more = "",
           const std::string& turned = "") {
  std::vector<std::vector<float>> values;
  std::vector<TensorBytes> tensors;
  for (Parameter* p : parameters_of(llama))
    if (p->name() != without) values.push_back(backend().to_host(p->value()));
  size_t i = 0;
  for (Parameter* p : parameters_of(llama))
    if (p->name() != without) {
      Shape shape = p->global();
      if (p->name() == turned) std::swap(shape[0], shape[1]);
      tensors.push_back({p->name(), StoredType::F32, shape, as_bytes_of(values[i++])});
    }
  const std::vector<float> four(4);
  if (!more.empty()) tensors.push_back({more, StoredType::F32, {4}, as_bytes_of(four)});
  write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace

TEST_CASE("weights go to a file and come back bit by bit, under Hugging Face's names") {
  const TestFolder folder;
  const std::string path = (folder.path / "model.safetensors").string();
  Llama from(backend(), little_config()), to(backend(), little_config());
  initialize(from, 5), initialize(to, 6);
  save_weights(from, path);
  const SafetensorsFile file(path);
  CHECK(file.metadata().at("format") == "pt");
  std::set<std::string> names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  for (const int layer : {0, 1})
    for (const char* name : {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                             "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      names.insert(cat("model.layers.", layer, ".", name, ".weight"));
  const auto there = file.names();
  CHECK(std::set<std::string>(there.begin(), there.end()) == names);
  CHECK(file.info("model.layers.1.self_attn.k_proj.weight").shape == Shape{8, 24});

  load_weights(to, path);
  const auto a = values_of(from), b = values_of(to);
  for (size_t i = 0; i < a.size(); ++i) CHECK(differs(b[i], a[i]) == "");
}

TEST_CASE("B22: weights in RoPE's other order are the same model, and are saved in that order again") {
  const auto B22 = the_case("B22");
  const int64_t H = B22["input"]["Hq"], K = B22["input"]["Hkv"], D = B22["input"]["hd_of_rows"], E = 32, S = 12;
  LlamaConfig config{61, E, 40, 2, H, K};
  CHECK(config.attention().head_dim == D);
  const TestFolder folder;
  const auto at = [&](const char* name) { return (folder.path / name).string(); };
  const auto bytes_of = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  Llama half_split(backend(), config);
  initialize(half_split, 22);
  save_weights(half_split, at("half_split"));

  // The other library's file: a head's rows go where the case says, by its own table.
  const auto row = B22["right"]["inverse"].get<std::vector<int64_t>>();
  std::vector<std::vector<float>> values;
  std::vector<TensorBytes> tensors;
  for (Parameter* p : parameters_of(half_split)) {
    auto there = backend().to_host(p->value());
    if (p->name().ends_with("q_proj.weight") || p->name().ends_with("k_proj.weight")) {
      const auto here = there;
      for (int64_t r = 0; r < p->global()[0]; ++r)
        std::copy_n(here.begin() + (r / D * D + row[r % D]) * E, E, there.begin() + r * E);
    }
    values.push_back(there);
  }
  const Parameters parameters = parameters_of(half_split);
  for (size_t i = 0; i < values.size(); ++i)
    tensors.push_back({parameters[i]->name(), StoredType::F32, parameters[i]->global(), as_bytes_of(values[i])});
  write_safetensors(at("interleaved"), tensors, {{"format", "pt"}});
  CHECK(bytes_of(at("interleaved")) != bytes_of(at("half_split")));

  config.rope_interleave = true;
  config.head_dim = D;
  CHECK(config_from_json(to_json(config), "x") == config);
  Llama imported(backend(), config);
  load_weights(imported, at("interleaved"));
  const auto logits = [&](Llama& llama) {
    return llama.forward(backend().from_host(random_ids("ids", 2 * S, 61), {2, S})).take(backend());
  };
  CHECK(differs(logits(imported), logits(half_split), 1e-5) == "");
  save_weights(imported, at("exported"));
  CHECK(bytes_of(at("exported")) == bytes_of(at("interleaved")));
}

TEST_CASE("a file that does not fit the model is refused, and says the tensor") {
  const TestFolder folder;
  const std::string path = (folder.path / "model.safetensors").string();
  Llama llama(backend(), little_config());
  initialize(llama, 5);
  const auto expect = [&](const std::string& words) {
    const std::string said = refusal(llama, path);
    INFO(said);
    CHECK(said.starts_with(path));
    CHECK(said.find(words) != std::string::npos);
  };
  write(path, llama, "model.norm.weight");
  expect("model.norm.weight");
  write(path, llama, "", "model.layers.0.self_attn.q_proj.bias");
  expect("model.layers.0.self_attn.q_proj.bias has no place");
  write(path, llama, "", "", "lm_head.weight");
  expect("[24,61]");
  write(path, llama, "", "model.layers.0.self_attn.rotary_emb.inv_freq");
  CHECK(refusal(llama, path) == "");
}
