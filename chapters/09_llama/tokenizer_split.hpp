// Cuts a text into words. Merges never cross a word's border, so words are what is counted, cached and merged.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace course {

class Splitter {
 public:
  // A pattern in the dialect of tokenizer.json. Throws Error on one that is broken, refused (tokenizer_pattern.hpp) or
  // can match nothing at all.
  explicit Splitter(std::string_view pattern);

  // Calls `word` with each word of `text` in turn; put behind one another they are the text. A match of the pattern is
  // a word, and so is what lies between two matches. Bytes that are not UTF-8 cut the text: each broken piece
  // (next_utf8) is a word of its own, and the pattern sees the text before it and behind it as two texts.
  // Throws Error if the pattern needs too many steps on this text.
  void each(std::string_view text, const std::function<void(std::string_view)>& word) const;

 private:
  void each_match(std::string_view text, const std::function<void(std::string_view)>& word) const;  // text is UTF-8

  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace course
