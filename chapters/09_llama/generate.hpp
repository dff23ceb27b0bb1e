// Text from a model, token by token, with a cache of keys and values.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "chapters/09_llama/llama.hpp"
#include "chapters/09_llama/tokenizer.hpp"
#include "common/comm/comm.hpp"

namespace course {

struct GenerateOptions {
  int64_t tokens = 60;       // at most
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // only among so many of the likeliest; 0: all
  double top_p = 1;  // only among the likeliest that together have this probability. Holtzman et al., arXiv:1904.09751
  int64_t seed = 1;
  int64_t vocabulary = 0;  // only ids below it: a tokenizer may know fewer than the model has rows; 0: all
};

// The next token's id by these options; `step` counts the draws of one seed. Of equals, the smallest id.
int32_t sample(const std::vector<float>& logits, const GenerateOptions& options, int64_t step);

// Continues `prompt` (rank 0's ids; [BOT] before the text) until `end`, options.tokens, or the model's last position.
// Rank 0 samples and broadcasts; each new id goes to `each` on rank 0 as it comes. Returns the new ids on every rank.
// Collective over world; with FSDP hold the units first. Leaves the model training, without a cache, whatever happens.
// Throws SharedError for an empty prompt or one past the model's positions.
std::vector<int32_t> generate(Llama& llama, std::vector<int32_t> prompt, std::optional<int32_t> end,
                              const GenerateOptions& options, Comm& world,
                              const std::function<void(int32_t)>& each = {});

}  // namespace course
