#include "chapters/09_llama/tokenizer.hpp"

#include <fstream>
#include <iterator>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "chapters/09_llama/tokenizer_pattern.hpp"
#include "common/check.hpp"
#include "common/support/write_aside.hpp"

namespace course {
namespace {

constexpr std::size_t words_kept = 1 << 17;    // then new words are no longer remembered
constexpr std::size_t longest_word_kept = 64;  // bytes

}  // namespace

Tokenizer::Tokenizer(TokenizerData data)
    : data_(std::move(data)),
      splitter_(data_.split ? *data_.split : gpt2_pattern),
      merges_(data_.merges),
      added_(data_) {
  special_.resize(data_.tokens.size());
  byte_id_.fill(-1);
  std::vector<bool> merged(data_.tokens.size()), literal(data_.tokens.size());
  for (const auto& merge : data_.merges) merged[merge.result] = true;
  for (const auto& token : data_.added) {
    special_[token.id] = token.special;
    literal[token.id] = true;
  }
  for (std::int32_t id = 0; id < size(); ++id) {
    const std::string& text = data_.tokens[id];
    id_.emplace(text, id);
    const auto spelled = unspell(text);
    bytes_.push_back(spelled && !literal[id] ? *spelled : text);
    if (!spelled || !data_.in_vocab[id]) continue;
    if (spelled->size() == 1) byte_id_[static_cast<unsigned char>((*spelled)[0])] = id;
    require(bytes_[id] == *spelled || !(merged[id] || spelled->size() == 1), "added token ", in_quotes(text),
            " is spelled like a token of other bytes");
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  require(!std::filesystem::is_directory(path), path.string(), ": is a folder");
  std::ifstream file(path, std::ios::binary);
  require(file, path.string(), ": cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return Tokenizer(parse_tokenizer_json(text));
  } catch (const Error& e) {
    fail(cat(path.string(), ": ", e.what()));
  }
}

void Tokenizer::save(const std::filesystem::path& path) const { write_aside(path, write_tokenizer_json(data_)); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  Ids ids;
  const std::function<void(std::string_view)> word = [&](std::string_view w) { encode_word(w, ids); };
  added_.each(
      text, [&](std::int32_t id) { ids.push_back(id); }, [&](std::string_view piece) { splitter_.each(piece, word); });
  return ids;
}

void Tokenizer::encode_word(std::string_view word, Ids& out) const {
  const auto seen = seen_.find(word);
  if (seen != seen_.end()) {
    out.insert(out.end(), seen->second.begin(), seen->second.end());
    return;
  }
  const Ids ids = tokens_of(word);
  out.insert(out.end(), ids.begin(), ids.end());
  if (word.size() <= longest_word_kept && seen_.size() < words_kept) seen_.emplace(word, ids);
}

Tokenizer::Ids Tokenizer::tokens_of(std::string_view word) const {
  if (data_.ignore_merges) {
    const auto whole = id_.find(spell(word));
    if (whole != id_.end() && data_.in_vocab[whole->second]) return {whole->second};
  }
  Ids ids;
  ids.reserve(word.size());
  for (unsigned char byte : word) {
    require(byte_id_[byte] >= 0, "the vocabulary has no token for the byte ", static_cast<int>(byte), " (",
            in_quotes(word), ")");
    ids.push_back(byte_id_[byte]);
  }
  merges_.apply(ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  return mend_utf8(decode_bytes(ids, skip_special));
}

std::string Tokenizer::decode_bytes(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string out;
  for (std::int32_t id : ids)
    if (!(special(id) && skip_special)) out += bytes_[id];
  return out;
}

std::optional<std::int32_t> Tokenizer::id(std::string_view token) const {
  const auto found = id_.find(token);
  return found == id_.end() ? std::nullopt : std::optional(found->second);
}

void Tokenizer::check_id(std::int32_t id) const {
  require(id >= 0 && id < size(), "token id ", id, " is outside the vocabulary of ", size());
}

const std::string& Tokenizer::token(std::int32_t id) const {
  check_id(id);
  return data_.tokens[id];
}

const std::string& Tokenizer::bytes(std::int32_t id) const {
  check_id(id);
  return bytes_[id];
}

bool Tokenizer::special(std::int32_t id) const {
  check_id(id);
  return special_[id];
}

std::string StreamDecoder::push(std::int32_t id) {
  if (!(tokenizer_.special(id) && skip_special_)) pending_ += tokenizer_.bytes(id);
  return take_utf8(pending_);
}

std::string StreamDecoder::finish() {
  std::string out = mend_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace course
