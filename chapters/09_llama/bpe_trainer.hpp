// Learns the merges of byte-pair encoding from text.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/09_llama/tokenizer.hpp"

namespace course {

// Trains a tokenizer as Hugging Face's BpeTrainer does with all 256 bytes as its first alphabet (the same merges, the
// same ids):
//   ids      the specials in their order, then the bytes by code point of their character (! " # ...), then merges in
//   their order words    each document is cut by GPT-2's pattern; a special token's literal text in a document is text
//   like any other a step   the pair of neighbours with the largest count becomes one token; of equals the smallest
//   (left id, right id).
//            A pair is counted at every place, overlapping ones too (`aaa` has `aa` twice), and merged from left to
//            right
//   the end  vocab_size tokens, or fewer when no pair is left; a pair that is seen once still counts
// Documents are any bytes. A step looks only at the places of its pair: 5 MB to 4096 tokens takes about a second.
// `progress`, if given, hears of work now and then: tokens learned so far, and how many are wanted (0 of them while
// words are counted). Throws Error if vocab_size has no room for the specials and 256 bytes, or a special is empty, not
// UTF-8, one byte's spelling, or there twice.
Tokenizer train_bpe(std::span<const std::string_view> documents, int vocab_size,
                    const std::vector<std::string>& specials = {"[BOT]", "[EOT]", "[PAD]"},
                    const std::function<void(int done, int total)>& progress = {});
Tokenizer train_bpe(std::span<const std::string> documents, int vocab_size,
                    const std::vector<std::string>& specials = {"[BOT]", "[EOT]", "[PAD]"},
                    const std::function<void(int done, int total)>& progress = {});

}  // namespace course
