// Learns the merges of byte-pair encoding from text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_llama/tokenizer.hpp"

namespace course {

// Trains a tokenizer as Hugging Face's BpeTrainer does with all 256 bytes as its first alphabet: the same merges, the
// same ids.
//   ids      the specials in their order, the bytes by code point of their character (! " # ...), the merges in theirs
//   words    each document is cut by GPT-2's pattern; the text of a special token in a document is text like any other
//   a step   the pair of neighbours with the largest count becomes one token; of equals the smallest (left, right) id.
//            Every place counts, overlapping ones too (`aaa` has `aa` twice); merged is from left to right
//   the end  vocab_size tokens, or fewer when no pair is left; a pair that is seen once still counts
// Documents are any bytes. A step looks only at the places of its pair: 5 MB of Shakespeare to 4096 tokens took 0.3 s
// on one core. `progress`, if given, hears after each document and each merge: tokens learned so far, and how many are
// wanted. Throws Error if vocab_size has no room for the specials and 256 bytes, or a special is empty, not UTF-8, the
// spelling of one byte, or there twice.
Tokenizer train_bpe(std::span<const std::string_view> documents, int vocab_size,
                    const std::vector<std::string>& specials = {"[BOT]", "[EOT]", "[PAD]"},
                    const std::function<void(int done, int total)>& progress = {});
Tokenizer train_bpe(std::span<const std::string> documents, int vocab_size,
                    const std::vector<std::string>& specials = {"[BOT]", "[EOT]", "[PAD]"},
                    const std::function<void(int done, int total)>& progress = {});

}  // namespace course
