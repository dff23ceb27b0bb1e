#include "chapters/06_sharded_attention/demonstrations.hpp"

#include <iomanip>

#include "common/chunk.hpp"

namespace course {

void show_rope(Session& session) {
  Backend& backend = session.backend();
  const RopeTable table(backend, 64, 4);
  const auto turned = [&](const std::vector<float>& x, int32_t position) {
    Tensor t = backend.from_host(x, {1, 1, 1, 4});
    backend.rope(t, table.cos, table.sin, backend.from_host(std::vector<int32_t>{position}, {1}), false);
    return backend.to_host(t);
  };
  const auto score = [&](int32_t query, int32_t key) {
    const auto q = turned({1, 2, 3, 4}, query), k = turned({2, 0, 1, 1}, key);
    return q[0] * k[0] + q[1] * k[1] + q[2] * k[2] + q[3] * k[3];
  };
  session.out() << std::fixed << std::setprecision(4);
  for (const int32_t position : {0, 1, 2}) {
    session.out() << "  [1 2 3 4] at position " << position << ":";
    for (const float value : turned({1, 2, 3, 4}, position)) session.out() << std::setw(8) << value;
    session.out() << "\n";
  }
  session.out() << "  its product with [2 0 1 1], the query at position 5, the key at 3: " << score(5, 3)
                << "; at 42 and 40: " << score(42, 40) << "; at 5 and 4: " << score(5, 4) << "\n\n"
                << std::defaultfloat;
}

void show_heads(Session& session, const AttentionSizes& sizes, int64_t ranks) {
  const int64_t G = sizes.heads / sizes.kv_heads, D = sizes.head_dim;
  const auto range = [](int64_t begin, int64_t count) {
    return count == 0 ? "none" : count == 1 ? cat("head ", begin) : cat("heads ", begin, " to ", begin + count - 1);
  };
  Table table({"rank", "key/value heads", "query heads"});
  for (int64_t r = 0; r < ranks; ++r) {
    const Chunk groups = chunk(sizes.kv_heads, ranks, r);
    table.row(r, range(groups.offset, groups.size), range(groups.offset * G, groups.size * G));
  }
  session.out() << table.str() << idle_ranks(sizes.kv_heads, ranks, "key/value heads");
  if (sizes.kv_heads % ranks)
    session.out() << "An even cut would give a rank " << sizes.kv_heads * D / static_cast<double>(ranks)
                  << " rows of k_proj, which is no whole number of heads of " << D
                  << ":\nPyTorch's plan fails here. This one cuts between the key/value heads.\n";
  session.out() << "\n";
}

Tensor token_by_token(Attention& attention, SequenceContext& context, const Tensor& x) {
  Backend& backend = attention.backend();
  Tensor y = backend.empty(x.shape());
  const SequenceContext before = context;
  attention.set_training(false);
  context.cache = true;
  for (context.offset = 0; context.offset < x.dim(1); ++context.offset) {
    Tensor seen;  // of the padding mask: the tokens so far
    if (before.attend) {
      seen = backend.slice(*before.attend, 1, 0, context.offset + 1);
      context.attend = &seen;
    }
    const DTensor token = attention.forward(backend.slice(x, 1, context.offset, 1));
    backend.copy_slice(token.local(), 0, y, context.offset, 1, 1);
  }
  context = before;
  attention.forget_cache();
  attention.set_training(true);
  return y;
}

int64_t peak_bytes(Backend& backend, const AttentionSizes& sizes, int64_t sequence) {
  const auto rope = std::make_shared<const RopeTable>(backend, sequence, sizes.head_dim);
  Attention attention(backend, sizes, rope, std::make_shared<const SequenceContext>());
  initialize(attention, 6);
  Tensor x = draw_numbers(backend, "x", {1, sequence, sizes.hidden}), dy = backend.clone(x);
  const int64_t before = backend.memory_use().now;
  backend.reset_peak();
  attention.forward(std::move(x));
  attention.backward(std::move(dy));
  return backend.memory_use().peak - before;
}

void show_memory(Session& session, const AttentionSizes& sizes) {
  Backend& backend = session.backend();
  const int64_t S = 256, once = peak_bytes(backend, sizes, S), twice = peak_bytes(backend, sizes, 2 * S);
  Table table({"tokens", "forward and backward need", "all scores alone would"});
  for (const auto& [tokens, peak] : {std::pair(S, once), std::pair(2 * S, twice)})
    table.row(tokens, human_bytes(peak), human_bytes(4 * sizes.heads * tokens * tokens));
  session.out() << table.str() << "\n";
  require_shared(session.world().max(static_cast<double>(twice) / once) <= 2.1, "twice the tokens need ",
                 static_cast<double>(twice) / once, " times the memory");
}

}  // namespace course
