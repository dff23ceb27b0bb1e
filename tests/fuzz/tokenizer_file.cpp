// Input: a tokenizer.json.
#include "chapters/09_llama/tokenizer_file.hpp"

#include "chapters/09_llama/tokenizer.hpp"
#include "common/check.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace course;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::reads_or_refuses(size, [&] {
    const TokenizerData read = parse_tokenizer_json(text);
    fuzz::must(parse_tokenizer_json(write_tokenizer_json(read)) == read, "a tokenizer written again is another");
  });
  fuzz::reads_or_refuses(size + (1 << 16), [&] {  // PCRE2's tables and the 256 bytes come on top of the file
    const Tokenizer tokenizer(parse_tokenizer_json(text));
    const std::string_view river = "The river's 42\n\xC3\x28 [BOT]";
    fuzz::must(tokenizer.decode_bytes(tokenizer.encode(river), false) == river, "a text decoded is another");
  });
  return 0;
}
