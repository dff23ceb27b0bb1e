#include "chapters/09_llama/tokenizer_added.hpp"

#include <algorithm>

namespace course {

AddedTokens::AddedTokens(const TokenizerData& data) {
  for (const auto& token : data.added) {
    const std::string& text = data.tokens[token.id];
    (token.normalized ? normalized_ : plain_)[static_cast<unsigned char>(text[0])].push_back({text, token.id});
  }
  for (Literals* literals : {&plain_, &normalized_})
    for (auto& same_first : *literals)
      std::sort(same_first.begin(), same_first.end(), [](auto& a, auto& b) { return a.text.size() > b.text.size(); });
}

void AddedTokens::each(std::string_view text, const std::function<void(std::int32_t)>& token,
                       const std::function<void(std::string_view)>& between) const {
  search(plain_, text, token, [&](std::string_view piece) { search(normalized_, piece, token, between); });
}

void AddedTokens::search(const Literals& literals, std::string_view text,
                         const std::function<void(std::int32_t)>& token,
                         const std::function<void(std::string_view)>& between) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto& candidates = literals[static_cast<unsigned char>(text[i])];
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Literal& c) { return text.substr(i).starts_with(c.text); });
    if (found == candidates.end()) {
      ++i;
      continue;
    }
    if (i > done) between(text.substr(done, i - done));
    token(found->id);
    done = i += found->text.size();
  }
  if (done < text.size()) between(text.substr(done));
}

}  // namespace course
