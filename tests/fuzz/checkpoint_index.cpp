// Input: a checkpoint's index.json. Its hash is mended before it is read, or nothing made up would get past it.
#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"

#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "common/support/shallow_json.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace course;

namespace {

std::string with_right_hash(const std::string& text) {
  try {
    nlohmann::json index = parse_shallow_json(text);
    if (!index.is_object()) return text;
    index.erase("hash");
    index["hash"] = hash_of_index(index);
    return index.dump();
  } catch (const std::exception&) {
    return text;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size), mended = with_right_hash(text);
  for (const std::string& index : {text, mended})
    fuzz::reads_or_refuses(index.size(),
                           [&] { pieces_by_tensor(parse_checkpoint_index(index, "index.json"), "index.json"); });
  return 0;
}
