// What the tests of the Llama share: small models, models from golden files, files that come and go.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "chapters/09_llama/llama.hpp"
#include "chapters/09_llama/token_data.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

// vocabulary 61, hidden 24, 2 layers, 6 heads of 4 that share 2 key/value heads
inline LlamaConfig little_config(int64_t positions = 32) {
  LlamaConfig c{61, 24, 40, 2, 6, 2};
  c.max_position_embeddings = positions;
  return c;
}

inline LlamaConfig config_of(const Golden& golden) {
  LlamaConfig c{golden.integer("vocab_size"),          golden.integer("hidden_size"),
                golden.integer("intermediate_size"),   golden.integer("num_hidden_layers"),
                golden.integer("num_attention_heads"), golden.integer("num_key_value_heads")};
  c.head_dim = golden.integer("head_dim");
  c.rms_norm_eps = golden.number("rms_norm_eps");
  c.rope_theta = golden.number("rope_theta");
  return c;
}

// Ids in 0..end-1 that depend on the name and the place alone.
inline std::vector<int32_t> random_ids(const std::string& name, int64_t count, int64_t end) {
  const Rng rng(7, name);
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(rng.uniform(i) * static_cast<double>(end));
  return ids;
}

inline std::vector<Tensor> values_of(Module& module) {
  std::vector<Tensor> values;
  for (Parameter* p : parameters_of(module)) values.push_back(backend().clone(p->value()));
  return values;
}

// A folder of its own on each rank, gone at the end.
struct TestFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / cat("course_llama_", getpid());
  TestFolder() { std::filesystem::create_directories(path); }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& bytes) const {
    const std::string whole = (path / name).string();
    std::ofstream(whole, std::ios::binary) << bytes;
    return whole;
  }
};

}  // namespace course::test
