// model.safetensors: Hugging Face's names, there and back; files that do not fit.
#include <set>

#include "common/support/safetensors.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
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
