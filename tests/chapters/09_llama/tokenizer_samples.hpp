// Tokenizers that the tests of the tokenizer share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_llama/bpe_trainer.hpp"

namespace course::test {

using Ids = std::vector<std::int32_t>;

// Llama 3's pattern, as its tokenizer.json has it.
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// 330 tokens, learned from a text that has something of everything.
inline Tokenizer small_tokenizer() {
  const std::vector<std::string> text = {
      "The river can't say it's the llama's river; the stones aren't 1234567 or 12 345. na\u00efve caf\u00e9, "
      "Vi\u1ec7t "
      "Vi\u1ec7t, \U0001f999 \U0001f999, \u03d5\u2200, \u00e9t\u00e9\n\n  the end\n\n  of the river can't\r\n"};
  return train_bpe(text, 330);
}

inline Tokenizer small_tokenizer(std::string_view pattern) {
  TokenizerData data = small_tokenizer().data();
  data.split = pattern;
  return Tokenizer(std::move(data));
}

// The tokenizer of case B31 (a): whole words before merges.
inline Tokenizer abc_tokenizer(bool ignore_merges) {
  TokenizerData data;
  data.tokens = {"a", "b", "c", "ab", "abc"};
  data.in_vocab.assign(5, true);
  data.merges = {{0, 1, 3}};
  data.ignore_merges = ignore_merges;
  return Tokenizer(std::move(data));
}

// What a stream shows in the end. Every single push gives whole characters only.
inline std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special = true) {
  StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (std::int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace course::test
