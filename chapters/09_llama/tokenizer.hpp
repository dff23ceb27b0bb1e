// Text to token ids and back: byte-level BPE, in the file format of Hugging Face's `tokenizers` (tokenizer.json).
//
//   "The river."  cut into words     "The" " river" "."            tokenizer_split.hpp
//                 bytes as tokens    T h e   Ġ r i v e r   .        tokenizer_bytes.hpp
//                 merged by rank     The     Ġriver        .        bpe_merge.hpp
//                 as ids             407     287          16
//
// Every byte has a token, so any text can be encoded and none is "unknown". What a file may hold: tokenizer_file.hpp.
// Radford et al.: Language Models are Unsupervised Multitask Learners, 2019, section 2.2.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chapters/09_llama/bpe_merge.hpp"
#include "chapters/09_llama/tokenizer_added.hpp"
#include "chapters/09_llama/tokenizer_file.hpp"
#include "chapters/09_llama/tokenizer_split.hpp"

namespace course {

class Tokenizer {
 public:
  // Throws Error if the pattern is refused, or if an added token is spelled like one that stands for other bytes.
  explicit Tokenizer(TokenizerData data);

  // Reads a tokenizer.json. Throws Error with one line that begins with the path (see parse_tokenizer_json for the
  // reasons).
  static Tokenizer load(const std::filesystem::path& path);

  // Writes a tokenizer.json that Hugging Face's library reads; load gives an equal tokenizer. The file is written aside
  // and renamed, so it is there whole or not at all. Throws Error with the path if that fails.
  void save(const std::filesystem::path& path) const;

  // The ids of a text, as the library gives them with add_special_tokens=False. The literal text of an added token
  // becomes its id, anywhere. Any bytes will do: bytes that are not UTF-8 become their own byte tokens (Splitter::each
  // says how they cut words), and decode_bytes gives the very same bytes back. About linear in the text; words are
  // remembered, so one object is not for two threads at once: give each its copy. Throws Error for a byte that has no
  // token, which only a file without the whole byte alphabet can lead to.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // The text of ids. U+FFFD stands for each maximal piece that is not UTF-8 (ids may cut a character). Added tokens
  // read as their literal text; special ones are left out if skip_special. Throws Error for an id outside 0..size()-1.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = true) const;

  // The same as raw bytes, with nothing mended. decode_bytes(encode(s), false) == s for every s.
  std::string decode_bytes(std::span<const std::int32_t> ids, bool skip_special = true) const;

  std::int32_t size() const { return static_cast<std::int32_t>(data_.tokens.size()); }

  // The id of a token in the file's spelling ("Ġthe", "[BOT]").
  std::optional<std::int32_t> id(std::string_view token) const;

  // One token: the file's spelling, its bytes, and whether it is special. Throw Error for an id outside 0..size()-1.
  const std::string& token(std::int32_t id) const;
  const std::string& bytes(std::int32_t id) const;
  bool special(std::int32_t id) const;

  // The course's own special tokens, where the vocabulary has them: a text begins with [BOT] and ends with [EOT], [PAD]
  // fills up.
  std::optional<std::int32_t> bos() const { return id("[BOT]"); }
  std::optional<std::int32_t> eos() const { return id("[EOT]"); }
  std::optional<std::int32_t> pad() const { return id("[PAD]"); }

  const TokenizerData& data() const { return data_; }
  bool operator==(const Tokenizer& other) const { return data_ == other.data_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <typename Value>
  using TextMap = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  using Ids = std::vector<std::int32_t>;

  void check_id(std::int32_t id) const;
  void encode_word(std::string_view word, Ids& out) const;
  Ids tokens_of(std::string_view word) const;

  TokenizerData data_;
  Splitter splitter_;
  MergeTable merges_;
  AddedTokens added_;
  TextMap<std::int32_t> id_;               // of a token in the file's spelling
  std::vector<std::string> bytes_;         // by id
  std::vector<bool> special_;              // by id
  std::array<std::int32_t, 256> byte_id_;  // or -1
  mutable TextMap<Ids> seen_;              // words and their ids
};

// Decodes ids one by one, for text that is shown while it is generated. What push and finish return, put together, is
// what decode returns for all the ids; nothing is given out until a character is whole.
class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that became certain with this id. Throws Error for an id outside 0..size()-1.
  std::string push(std::int32_t id);

  // U+FFFD if the last character was cut, else nothing. Then the decoder is as new.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;  // the beginning of a character, at most 3 bytes
};

}  // namespace course
