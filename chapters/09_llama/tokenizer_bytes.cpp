#include "chapters/09_llama/tokenizer_bytes.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

namespace course {
namespace {

constexpr std::string_view replacement = "\uFFFD";

bool prints(int byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD); }

// Every character of the alphabet lies below U+0144: one or two bytes.
std::string utf8_below_800(int character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

struct Alphabet {
  std::array<std::string, 256> character;  // of a byte
  std::array<int, 0x144> byte;             // of a character, or -1
  Alphabet() {
    byte.fill(-1);
    int other = 0x100;
    for (int b = 0; b < 256; ++b) {
      const int c = prints(b) ? b : other++;
      character[b] = utf8_below_800(c);
      byte[c] = b;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet one;
  return one;
}

unsigned char at(std::string_view bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }

}  // namespace

std::string spell(std::string_view bytes) {
  std::string out;
  for (unsigned char b : bytes) out += alphabet().character[b];
  return out;
}

std::optional<std::string> unspell(std::string_view spelled) {
  std::string out;
  for (std::size_t i = 0; i < spelled.size();) {
    const auto piece = next_utf8(spelled.substr(i));
    if (piece.kind != Utf8Piece::whole || piece.size > 2) return std::nullopt;
    const unsigned c = piece.size == 1 ? at(spelled, i) : (at(spelled, i) & 0x1Fu) << 6 | (at(spelled, i + 1) & 0x3Fu);
    if (c >= alphabet().byte.size() || alphabet().byte[c] < 0) return std::nullopt;
    out += static_cast<char>(alphabet().byte[c]);
    i += piece.size;
  }
  return out;
}

Utf8Piece next_utf8(std::string_view bytes) {
  const int lead = at(bytes, 0);
  if (lead < 0x80) return {Utf8Piece::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Piece::broken, 1};
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  int low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;   // no second spelling of a shorter character,
  int high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;  // no surrogate, nothing above U+10FFFF
  for (std::size_t i = 1; i < size; ++i, low = 0x80, high = 0xBF) {
    if (i == bytes.size()) return {Utf8Piece::unfinished, i};
    if (at(bytes, i) < low || at(bytes, i) > high) return {Utf8Piece::broken, i};
  }
  return {Utf8Piece::whole, size};
}

std::size_t valid_utf8(std::string_view bytes) {
  std::size_t end = 0;
  while (end < bytes.size()) {
    const auto piece = next_utf8(bytes.substr(end));
    if (piece.kind != Utf8Piece::whole) break;
    end += piece.size;
  }
  return end;
}

std::string take_utf8(std::string& bytes) {
  std::string out;
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto rest = std::string_view(bytes).substr(i);
    const auto piece = next_utf8(rest);
    if (piece.kind == Utf8Piece::unfinished) break;
    out += piece.kind == Utf8Piece::whole ? rest.substr(0, piece.size) : replacement;
    i += piece.size;
  }
  bytes.erase(0, i);
  return out;
}

std::string mend_utf8(std::string_view bytes) {
  std::string rest(bytes);
  std::string out = take_utf8(rest);
  if (!rest.empty()) out += replacement;
  return out;
}

std::ostream& operator<<(std::ostream& out, InQuotes quotes) {
  const nlohmann::json text = std::string(quotes.text);
  return out << text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace course
