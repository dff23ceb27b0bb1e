// The sizes of a decoder layer and of what goes through it, as flags: of this program and of chapter 08's.
#pragma once

#include "chapters/06_sharded_attention/attention.hpp"
#include "common/support/cli.hpp"

namespace course {

// B sequences  S tokens each  I features inside the MLP
struct LayerFlags {
  int64_t B, S, I;
  AttentionSizes attention;  // the size of a head follows from the others

  // --batch --seq --hidden --intermediate --heads --kv-heads, with the values here as defaults.
  void add_to(Cli& cli);
  // After Cli::parse. Throws UsageError for heads that do not fit together or into the features, and for
  // sizes beyond the memory here.
  void settle(Session& session);
};

}  // namespace course
