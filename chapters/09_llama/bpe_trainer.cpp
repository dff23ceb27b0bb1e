#include "chapters/09_llama/bpe_trainer.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "chapters/09_llama/tokenizer_pattern.hpp"
#include "common/check.hpp"

namespace course {
namespace {

using Progress = std::function<void(int, int)>;

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using WordCounts = std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>>;

WordCounts count_words(std::span<const std::string_view> documents, const std::function<void()>& alive) {
  WordCounts counts;
  const Splitter splitter(gpt2_pattern);
  const std::function<void(std::string_view)> count = [&](std::string_view word) {
    const auto found = counts.find(word);
    if (found != counts.end())
      ++found->second;
    else
      counts.emplace(word, 1);
  };
  for (std::string_view document : documents) {
    splitter.each(document, count);
    alive();
  }
  return counts;
}

// Specials, then the bytes by code point of their characters.
TokenizerData first_tokens(const std::vector<std::string>& specials) {
  TokenizerData data;
  for (const auto& special : specials) {
    const auto spelled = unspell(special);
    require(!special.empty() && valid_utf8(special) == special.size(), "special token ", in_quotes(special),
            ": empty or not UTF-8");
    require(!spelled || spelled->size() > 1, "special token ", in_quotes(special), " is the spelling of a byte");
    require(std::count(specials.begin(), specials.end(), special) == 1, "special token ", in_quotes(special),
            " is given twice");
    data.added.push_back({static_cast<std::int32_t>(data.tokens.size()), true, false});
    data.tokens.push_back(special);
  }
  std::vector<std::string> alphabet;
  for (int b = 0; b < 256; ++b) alphabet.push_back(spell(std::string(1, static_cast<char>(b))));
  std::sort(alphabet.begin(), alphabet.end());  // UTF-8 sorts as code points do
  data.tokens.insert(data.tokens.end(), alphabet.begin(), alphabet.end());
  return data;
}

// All distinct words behind one another, as a linked list of tokens, and the pairs of neighbours with their places.
class Learner {
 public:
  Learner(const WordCounts& words, TokenizerData data) : data_(std::move(data)) {
    for (std::size_t i = 0; i < data_.tokens.size(); ++i) id_.emplace(data_.tokens[i], static_cast<std::int32_t>(i));
    std::vector<std::int32_t> byte_id(256);
    for (int b = 0; b < 256; ++b) byte_id[b] = id_.at(spell(std::string(1, static_cast<char>(b))));
    for (const auto& [word, count] : words) {
      const std::size_t first = places_.size();
      require(first + word.size() < none, "the distinct words have more than ", none, " bytes: take less text");
      for (unsigned char byte : word) {
        const auto i = static_cast<std::uint32_t>(places_.size());
        places_.push_back({byte_id[byte], i == first ? none : i - 1, i + 1 == first + word.size() ? none : i + 1});
        counts_.push_back(count);
      }
    }
    for (std::uint32_t i = 0; i < places_.size(); ++i)
      if (places_[i].after != none) add(i);
    queue_changed();
  }

  void run(std::size_t vocab_size, const std::function<void(int)>& learned) {
    while (data_.tokens.size() < vocab_size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      Pair& pair = pairs_.at(top.key);
      if (top.count != pair.count) {
        queue_.push({pair.count, top.key});
        continue;
      }
      if (top.count < 1) break;
      if (pair.places.empty()) continue;  // it was queued twice
      merge(top.key, std::exchange(pair.places, {}));
      queue_changed();
      learned(static_cast<int>(data_.tokens.size()));
    }
  }

  TokenizerData result() && {
    data_.in_vocab.assign(data_.tokens.size(), true);
    return std::move(data_);
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int32_t gone = -1;

  struct Place {
    std::int32_t token;
    std::uint32_t before, after;  // neighbours in the word, or none
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> places;  // of the left token; some may be out of date
    bool changed = false;
  };
  struct Candidate {
    std::int64_t count;  // may be out of date
    std::uint64_t key;   // left id, right id
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::uint64_t key_at(std::uint32_t i) const { return key(places_[i].token, places_[places_[i].after].token); }

  void add(std::uint32_t i) {
    Pair& pair = pairs_[key_at(i)];
    pair.count += counts_[i];
    pair.places.push_back(i);
    if (!std::exchange(pair.changed, true)) changed_.push_back(key_at(i));
  }
  void subtract(std::uint32_t i) { pairs_.at(key_at(i)).count -= counts_[i]; }

  void queue_changed() {
    for (std::uint64_t k : changed_) {
      Pair& pair = pairs_.at(k);
      pair.changed = false;
      queue_.push({pair.count, k});
    }
    changed_.clear();
  }

  // The merged pair's own count stays as it is, as in the library; it has no neighbours left to be counted again.
  void merge(std::uint64_t k, std::vector<std::uint32_t> where) {
    const auto left = static_cast<std::int32_t>(k >> 32), right = static_cast<std::int32_t>(k);
    const std::string text = data_.tokens[left] + data_.tokens[right];
    const auto [found, is_new] = id_.emplace(text, static_cast<std::int32_t>(data_.tokens.size()));
    if (is_new) data_.tokens.push_back(text);
    data_.merges.push_back({left, right, found->second});

    std::sort(where.begin(), where.end());
    for (std::uint32_t i : where) {
      Place& here = places_[i];
      if (here.token != left || here.after == none || places_[here.after].token != right) continue;
      const std::uint32_t j = here.after;
      if (here.before != none) subtract(here.before);
      if (places_[j].after != none) subtract(j);
      here.token = found->second;
      here.after = places_[j].after;
      places_[j].token = gone;
      if (here.after != none) places_[here.after].before = i;
      if (here.before != none) add(here.before);
      if (here.after != none) add(i);
    }
  }

  TokenizerData data_;
  std::unordered_map<std::string, std::int32_t> id_;
  std::vector<Place> places_;
  std::vector<std::int64_t> counts_;  // of the word that a place is in
  std::unordered_map<std::uint64_t, Pair> pairs_;
  std::vector<std::uint64_t> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Tokenizer train_bpe(std::span<const std::string_view> documents, int vocab_size,
                    const std::vector<std::string>& specials, const Progress& progress) {
  TokenizerData data = first_tokens(specials);
  const int first = static_cast<int>(data.tokens.size());
  require(vocab_size >= first, "a vocabulary of ", vocab_size, " has no room for ", specials.size(),
          " special tokens and 256 bytes");
  auto report = [&](int tokens) {
    if (progress) progress(tokens - first, vocab_size - first);
  };
  const WordCounts words = count_words(documents, [&] { report(first); });
  Learner learner(words, std::move(data));
  learner.run(vocab_size, report);
  return Tokenizer(std::move(learner).result());
}

Tokenizer train_bpe(std::span<const std::string> documents, int vocab_size, const std::vector<std::string>& specials,
                    const Progress& progress) {
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  return train_bpe(std::span<const std::string_view>(views), vocab_size, specials, progress);
}

}  // namespace course
