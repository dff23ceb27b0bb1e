// What a Hugging Face tokenizer.json holds, as plain data, and the way from the text and back.
//
// Read is byte-level BPE as GPT-2 and Llama 3 have it; everything else is refused with one line that names it:
//   pre_tokenizer   ByteLevel with its own regex, or Sequence[Split(Regex, Isolated), ByteLevel(use_regex false)];
//                   no add_prefix_space: a decoded text would begin with a space that was not there
//   model           BPE: vocab, merges as "a b" or ["a", "b"], ignore_merges; no dropout, prefix, suffix, byte_fallback
//   added_tokens    special or not, normalized or not; no lstrip, rstrip, single_word
//   decoder         ByteLevel
//   post_processor  ByteLevel, TemplateProcessing: kept, not applied. It adds special tokens; here the caller does
//   the others      normalizer, truncation and padding are null
// Ids must be 0, 1, 2, ... without a hole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_llama/bpe_merge.hpp"

namespace course {

// A token that stands in the text as it is and is found before words are cut.
struct AddedToken {
  std::int32_t id;
  bool special;     // left out by decode when asked to skip specials
  bool normalized;  // searched for after those that are not
  bool operator==(const AddedToken&) const = default;
};

struct TokenizerData {
  std::vector<std::string> tokens;       // text by id, in the spelling of the file: "Ġthe" (tokenizer_bytes.hpp)
  std::vector<bool> in_vocab;            // by id; false for a token that is only in added_tokens
  std::vector<AddedToken> added;         // by id, ascending
  std::vector<Merge> merges;             // by rank
  std::optional<std::string> split;      // the pattern of a Split; nothing where ByteLevel cuts with its own
  bool ignore_merges = false;            // a word that is in vocab is that token, whatever the merges say
  std::optional<std::string> unk_token;  // kept for the file: every byte has its token
  std::string post_processor = "null";   // kept for the file: JSON, keys sorted
  bool operator==(const TokenizerData&) const = default;
};

// Throws Error, without the file's name, for text that is not JSON, lacks a key, has a value of the wrong type, holds
// something refused above, or contradicts itself: two tokens of one id, a hole in the ids, a merge of tokens that vocab
// lacks.
TokenizerData parse_tokenizer_json(std::string_view text);

// One line without blanks, tokens by id and merges by rank, keys in the order of the library's own files.
std::string write_tokenizer_json(const TokenizerData& data);

}  // namespace course
