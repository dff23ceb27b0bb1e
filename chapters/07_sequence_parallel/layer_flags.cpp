#include "chapters/07_sequence_parallel/layer_flags.hpp"

#include "common/support/session.hpp"

namespace course {

void LayerFlags::add_to(Cli& cli) {
  cli.add("--batch", B, "sequences").positive();
  cli.add("--seq", S, "tokens a sequence").positive();
  cli.add("--hidden", attention.hidden, "features of the stream").positive();
  cli.add("--intermediate", I, "features inside the MLP").positive();
  cli.add("--heads", attention.heads, "query heads").positive();
  cli.add("--kv-heads", attention.kv_heads, "key/value heads").positive();
}

void LayerFlags::settle(Session& session) {
  AttentionSizes& a = attention;
  require_usage(a.heads % a.kv_heads == 0, "--heads ", a.heads, " is not a multiple of --kv-heads ", a.kv_heads);
  require_usage(a.hidden % (2 * a.heads) == 0, "--hidden ", a.hidden, " over --heads ", a.heads,
                ": the size of a head must be a whole, even number");
  a.head_dim = a.hidden / a.heads;
  // Every rank has a serial twin: x, the MLP's features, its weights and those of q and o.
  const double width = 1.0 * a.hidden;
  require_room(session, 4.0 * session.size() * (1.0 * B * S * (width + I) + 3 * width * I + 2 * width * width),
               cat("--batch ", B, " --seq ", S, " --hidden ", a.hidden, " --intermediate ", I));
}

}  // namespace course
