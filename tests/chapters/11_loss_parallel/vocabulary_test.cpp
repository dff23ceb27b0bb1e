// Case B08, its last part: a vocabulary that does not divide has no more rows than ids, in text and in a checkpoint.
#include <filesystem>
#include <fstream>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/generate.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("B08: no text has an id past the vocabulary, and no checkpoint a row of padding") {
  const auto B08 = the_case("B08");
  const int64_t V = B08["input"]["a"]["V"], E = 24;
  LlamaConfig config{V, E, 40, 2, 6, 2};
  config.max_position_embeddings = 32;
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  Llama llama(backend(), config);
  parallelize_module(llama, tp, llama_plan(PlanKind::Sequence, config.attention(), true));
  initialize(llama, 8);
  if (world().size() == B08["input"]["a"]["tp"])
    CHECK(llama.lm_head.weight.box().size[0] == B08["right"]["a_shards"][world().rank()].get<int64_t>());

  // Every logit is below 0, the last id's least so: a column of padding, which would be 0, would be the likeliest.
  std::vector<float> head(V * E);
  for (int64_t v = 0; v < V; ++v)
    for (int64_t e = 0; e < E; ++e) head[v * E + e] = static_cast<float>(v - V);
  llama.lm_head.weight.fill(head);
  const auto all_are = [](Parameter& p, float value) { p.fill(std::vector<float>(numel(p.global()), value)); };
  all_are(llama.model.embed_tokens.weight, 1);
  for (Parameter* p : parameters_of(llama))
    if (p->name().ends_with("o_proj.weight") || p->name().ends_with("down_proj.weight")) all_are(*p, 0);
  const auto made = generate(llama, {1}, std::nullopt, {.tokens = 6, .temperature = 0}, world());
  CHECK(made == std::vector<int32_t>(6, static_cast<int32_t>(V - 1)));
  for (const int32_t id : generate(llama, {1}, std::nullopt, {.tokens = 20, .temperature = 5}, world())) CHECK(id < V);

  const std::string dir =
      world().broadcast_text((std::filesystem::temp_directory_path() / cat("course_11_", getpid())).string(), 0);
  std::vector<CheckpointTensor> tensors;
  for (Parameter* p : parameters_of(llama))
    tensors.push_back({p->name(), p->global(), p->owned_box(), &p->owned_to_write(), p->speaks_for(tp)});
  const std::string at = save_checkpoint(dir, 1, tensors, nlohmann::json::object(), world(), backend());
  std::map<std::string, int64_t> rows;
  const auto index = nlohmann::json::parse(std::ifstream(at + "/index.json"));
  for (const auto& piece : index["pieces"]) {
    const std::string name = piece["tensor"];
    if (name != "lm_head.weight" && name != "model.embed_tokens.weight") continue;
    CHECK(piece["global"] == nlohmann::json{V, E});
    rows[name] += piece["size"][0].get<int64_t>();
  }
  CHECK(rows == std::map<std::string, int64_t>{{"lm_head.weight", V}, {"model.embed_tokens.weight", V}});
  world().barrier().wait();
  if (world().rank() == 0) std::filesystem::remove_all(dir);
}
