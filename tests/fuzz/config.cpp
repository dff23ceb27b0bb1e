// Input: a config.json.
#include "chapters/09_llama/llama_config.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace course;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::reads_or_refuses(size, [&] {
    const LlamaConfig config = config_from_json(text, "config.json");
    LlamaConfig again = config_from_json(to_json(config), "config.json");
    again.head_dim = config.head_dim;  // 0 is written as the number that it stands for
    fuzz::must(again == config, "a config written again is another");
  });
  return 0;
}
