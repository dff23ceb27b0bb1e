// The regular expression that cuts a text into words, in the dialect of tokenizer.json and in that of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace course {

// GPT-2's own, which a ByteLevel pre-tokenizer means: a contraction's end, letters, digits or signs with the space
// before them, and white space, whose last space goes with the word behind it. openai/gpt-2, src/encoder.py.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The same expression for PCRE2 (options UTF and UCP). Hugging Face reads patterns with Oniguruma; where both mean the
// same the text is kept, where they differ it is rewritten, and what has no safe reading is refused:
//   \s \S        White_Space of Unicode, spelled out; PCRE2's own has U+180E too
//   \p{L} \p{N}  with the letters and numbers that came with Unicode 15 to 16: the library knows them, PCRE2 10.42 not
//   \p{..}       any other general category (Lu, M, Nd, ...) as the PCRE2 at hand knows it
//   refused      \w \b \h and other letters after \, names of scripts, ^ and $, {,n}, a + behind {}, [ or && inside a
//                class, and groups other than ( (?: (?i: (?> (?= (?! (?<= (?<!
// Throws Error with one line that names what is refused.
std::string to_pcre2(std::string_view pattern);

}  // namespace course
