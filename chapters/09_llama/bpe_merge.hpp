// The merges of byte-pair encoding, applied to one word.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace course {

// Two neighbours that become one token. Ids are those of the vocabulary.
struct Merge {
  std::int32_t left, right, result;
  bool operator==(const Merge&) const = default;
};

// Merges by rank: the first in the list goes first. Of a pair listed twice the later rank counts, as in Hugging Face's
// library. Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units, ACL 2016,
// arXiv 1508.07909.
class MergeTable {
 public:
  explicit MergeTable(std::vector<Merge> merges);

  // Merges the tokens of one word in place: the pair of the lowest rank, the leftmost of equals, again and again until
  // no pair of neighbours is in the table. O(n log n) for n tokens. Throws Error for 2^32 tokens and more.
  void apply(std::vector<std::int32_t>& word) const;

 private:
  std::vector<Merge> merges_;                              // by rank
  std::unordered_map<std::uint64_t, std::uint32_t> rank_;  // of a pair
};

}  // namespace course
