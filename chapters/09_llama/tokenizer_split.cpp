#include "chapters/09_llama/tokenizer_split.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "chapters/09_llama/tokenizer_pattern.hpp"
#include "common/check.hpp"

namespace course {
namespace {

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message(int error) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

Splitter::Splitter(std::string_view pattern) {
  const std::string translated = "(*LF)" + to_pcre2(pattern);
  int error = 0;
  PCRE2_SIZE where = 0;
  code_ = {pcre2_compile(units(translated), translated.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr),
           pcre2_code_free};
  require(code_, "pattern ", in_quotes(pattern), ": ", message(error));
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  require(!matches_nothing, "pattern ", in_quotes(pattern), ": it can match nothing at all");
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT the interpreter does it
}

void Splitter::each(std::string_view text, const std::function<void(std::string_view)>& word) const {
  while (!text.empty()) {
    std::size_t n = valid_utf8(text);
    if (n > 0) {
      each_match(text.substr(0, n), word);
    } else {
      n = next_utf8(text).size;
      word(text.substr(0, n));
    }
    text.remove_prefix(n);
  }
}

void Splitter::each_match(std::string_view text, const std::function<void(std::string_view)>& word) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  pcre2_match_data_free);
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());  // where the match begins and ends
  std::size_t done = 0;
  while (done < text.size()) {
    auto find = [&](std::uint32_t options) {
      return pcre2_match(code_.get(), units(text), text.size(), done, PCRE2_NO_UTF_CHECK | options, match.get(),
                         nullptr);
    };
    int found = find(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = find(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    require(found >= 0, "the tokenizer's pattern fails on this text: ", message(found));
    if (span[0] > done) word(text.substr(done, span[0] - done));
    word(text.substr(span[0], span[1] - span[0]));
    done = span[1];
  }
  if (done < text.size()) word(text.substr(done));
}

}  // namespace course
