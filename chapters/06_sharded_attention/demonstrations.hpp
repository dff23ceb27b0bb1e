// What the program of this chapter shows beside its comparison.
#pragma once

#include "chapters/05_sharded_mlp/comparison.hpp"
#include "chapters/06_sharded_attention/attention.hpp"
#include "common/support/session.hpp"

namespace course {

// Four numbers turned by their position, and a score that knows only how far its query and key are apart.
void show_rope(Session& session);

// The key/value heads of each rank, and the query heads that read them; who is idle; what an even cut would do.
void show_heads(Session& session, const AttentionSizes& sizes, int64_t ranks);

// x [B,S,E] through `attention` one token at a time, its keys and values cached; returns y [B,S,E]. x whole on every
// rank, as is y. `context` is the attention's own. Leaves it in training, with an empty cache.
Tensor token_by_token(Attention& attention, SequenceContext& context, const Tensor& x);

// Bytes that a forward and backward of one sequence of S tokens need at once, beside weights and input. On this rank
// alone.
int64_t peak_bytes(Backend& backend, const AttentionSizes& sizes, int64_t sequence);

// Peaks at 256 and 512 tokens. Throws SharedError when twice the tokens need more than 2.1 times the memory on any
// rank.
void show_memory(Session& session, const AttentionSizes& sizes);

}  // namespace course
