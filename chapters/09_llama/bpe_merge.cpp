#include "chapters/09_llama/bpe_merge.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "common/check.hpp"

namespace course {
namespace {

constexpr std::int32_t gone = -1;
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::vector<Merge> merges) : merges_(std::move(merges)) {
  require(merges_.size() < none, "too many merges: ", merges_.size());
  rank_.reserve(merges_.size());
  for (std::uint32_t r = 0; r < merges_.size(); ++r) rank_[key(merges_[r].left, merges_[r].right)] = r;
}

void MergeTable::apply(std::vector<std::int32_t>& word) const {
  const std::size_t n = word.size();
  if (n < 2) return;
  require(n < none, "a word of ", n, " tokens is too long");
  std::vector<std::uint32_t> before(n), after(n);  // neighbours that are not gone
  for (std::uint32_t i = 0; i < n; ++i) {
    before[i] = i - 1;  // none for the first
    after[i] = i + 1 < n ? i + 1 : none;
  }

  // What could be merged: rank and place of the left token in one number, the smallest first.
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue;
  auto consider = [&](std::uint32_t i) {
    if (i == none || after[i] == none) return;
    const auto found = rank_.find(key(word[i], word[after[i]]));
    if (found != rank_.end()) queue.push(static_cast<std::uint64_t>(found->second) << 32 | i);
  };
  for (std::uint32_t i = 0; i < n; ++i) consider(i);

  while (!queue.empty()) {
    const Merge& merge = merges_[queue.top() >> 32];
    const auto i = static_cast<std::uint32_t>(queue.top());
    queue.pop();
    const std::uint32_t j = after[i];
    if (word[i] != merge.left || j == none || word[j] != merge.right) continue;  // a neighbour was merged since
    word[i] = merge.result;
    word[j] = gone;
    after[i] = after[j];
    if (after[j] != none) before[after[j]] = i;
    consider(before[i]);
    consider(i);
  }
  word.erase(std::remove(word.begin(), word.end(), gone), word.end());
}

}  // namespace course
