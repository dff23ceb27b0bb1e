// Bytes and characters: how tokenizer.json spells a byte, and where the characters of a text end.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace course {

// JSON cannot hold every byte, so GPT-2 gives each of the 256 bytes a character that prints: the bytes 21-7E, A1-AC and
// AE-FF are the characters of the same number, the other 68 are U+0100, U+0101, ... in their order. A space is Ġ, a
// newline Ċ. Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::string spell(std::string_view bytes);

// The way back: the bytes that `spelled` stands for, or nothing where a character is outside the alphabet.
std::optional<std::string> unspell(std::string_view spelled);

// What stands at the front of some bytes.
struct Utf8Piece {
  enum Kind { whole, broken, unfinished };
  Kind kind;         // unfinished: right so far, and the bytes end before the character does
  std::size_t size;  // in bytes, at least 1
};

// The piece at the front of `bytes`, which are not empty. A broken piece is maximal: the longest beginning of a
// character that the next byte cannot continue, or one byte that begins nothing. The Unicode Standard 16.0, table 3-7
// and section 3.9.6.
Utf8Piece next_utf8(std::string_view bytes);

// The length in bytes of the longest prefix that is UTF-8.
std::size_t valid_utf8(std::string_view bytes);

// The same text with U+FFFD for each broken piece and for an unfinished one at the end.
std::string mend_utf8(std::string_view bytes);

// Moves what is decided from the front of `bytes` to the result, with U+FFFD for each broken piece. What stays (at most
// 3 bytes) is an unfinished character.
std::string take_utf8(std::string& bytes);

// A text that prints in double quotes on one line, as JSON writes it. It holds a view: print it where it is made.
struct InQuotes {
  std::string_view text;
};
inline InQuotes in_quotes(std::string_view text) { return {text}; }
std::ostream& operator<<(std::ostream& out, InQuotes quotes);

}  // namespace course
