// Finds added tokens ([BOT], <|endoftext|>) that stand literally in a text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_llama/tokenizer_file.hpp"

namespace course {

class AddedTokens {
 public:
  // The added tokens of a tokenizer.
  explicit AddedTokens(const TokenizerData& data);

  // Walks over `text` from left to right: `token` gets the id of each added token found, `between` each piece that
  // holds none. Of tokens that begin at one place the longest counts, and the leftmost place first; tokens with
  // `normalized` are searched for in the pieces that the others leave.
  void each(std::string_view text, const std::function<void(std::int32_t)>& token,
            const std::function<void(std::string_view)>& between) const;

 private:
  struct Literal {
    std::string text;
    std::int32_t id;
  };
  using Literals = std::array<std::vector<Literal>, 256>;  // by first byte, the longest first

  static void search(const Literals& literals, std::string_view text, const std::function<void(std::int32_t)>& token,
                     const std::function<void(std::string_view)>& between);

  Literals plain_;
  Literals normalized_;
};

}  // namespace course
