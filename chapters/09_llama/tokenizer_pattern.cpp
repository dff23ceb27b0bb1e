#include "chapters/09_llama/tokenizer_pattern.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "common/check.hpp"

namespace course {
namespace {

constexpr std::string_view white_space =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view no_white_space =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

// New in Unicode 15, 15.1 and 16.
constexpr std::string_view new_letters =
    R"(\x{1C89}-\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65}\x{10D6F}-\x{10D85})"
    R"(\x{10EC2}-\x{10EC4}\x{1123F}-\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E}\x{11390}-\x{113B5}\x{113B7})"
    R"(\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D}\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155})"
    R"(\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739})"
    R"(\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view new_numbers =
    R"(\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139})"
    R"(\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

constexpr std::array<std::string_view, 37> categories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr std::array<std::string_view, 7> groups = {"(?:", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};

class Translation {
 public:
  explicit Translation(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    require(valid_utf8(in_) == in_.size(), "pattern ", in_quotes(in_), ": not UTF-8");
    while (i_ < in_.size()) {
      if (in_[i_] == '\\')
        escape();
      else if (in_class_)
        inside();
      else
        outside();
    }
    return out_;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(cat("pattern ", in_quotes(in_), ": ", what, " is not supported"));
  }
  bool next_is(std::string_view text) const { return in_.substr(i_, text.size()) == text; }
  void copy(std::size_t n) {
    out_ += in_.substr(i_, n);
    i_ += n;
  }
  // A set of characters: items of a class, or where none is open a class of its own.
  void set(std::string_view items, bool negated = false) {
    if (in_class_ && negated) refuse(cat(in_.substr(i_, 2), "{..} inside a class"));
    out_ += in_class_ ? std::string(items) : cat(negated ? "[^" : "[", items, "]");
  }

  void escape() {
    if (i_ + 1 == in_.size()) refuse("a \\ at the end");
    const char c = in_[i_ + 1];
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 's' || c == 'S')
      set(c == 's' ? white_space : no_white_space);
    else if (c == 'd')
      out_ += R"(\p{Nd})";
    else if (c == 'r' || c == 'n' || c == 't' || std::ispunct(static_cast<unsigned char>(c)))
      out_ += in_.substr(i_, 2);
    else
      refuse(in_.substr(i_, 2));
    i_ += 2;
  }

  void property(bool negated) {
    const std::size_t close = in_.find('}', i_);
    const bool braces = in_.substr(i_, 3).ends_with('{') && close != std::string_view::npos;
    const std::string_view name = braces ? in_.substr(i_ + 3, close - i_ - 3) : "";
    if (std::find(categories.begin(), categories.end(), name) == categories.end())
      refuse(cat(in_.substr(i_, braces ? close + 1 - i_ : 3)));
    const auto later = name == "L" ? new_letters : name == "N" ? new_numbers : std::string_view();
    set(cat("\\p{", name, "}", later), negated);
    i_ = close + 1;
  }

  void inside() {
    if (in_[i_] == '[') refuse("[ inside a class");
    if (next_is("&&")) refuse("&& inside a class");
    if (in_[i_] == ']') in_class_ = false;
    copy(1);
  }

  void outside() {
    const char c = in_[i_];
    if (c == '^' || c == '$') refuse(in_.substr(i_, 1));
    if (next_is("{,")) refuse("{,");
    if (next_is("}+")) refuse("}+");
    if (next_is("(*")) refuse("(*");
    if (next_is("(?")) {
      const auto group = std::find_if(groups.begin(), groups.end(), [&](auto g) { return next_is(g); });
      if (group == groups.end()) refuse(cat(in_.substr(i_, 3), "..."));
      return copy(group->size());
    }
    if (c != '[') return copy(1);
    copy(next_is("[^") ? 2 : 1);
    if (next_is("]")) refuse("an empty class");
    in_class_ = true;
  }

  std::string_view in_;
  std::string out_;
  std::size_t i_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace course
