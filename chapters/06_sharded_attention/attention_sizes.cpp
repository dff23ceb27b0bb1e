// What sizes an attention needs: apart from the layer, so that what reads a config.json links without it.
#include "chapters/06_sharded_attention/attention.hpp"

namespace course {

void check(const AttentionSizes& s) {
  require_shared(s.hidden > 0 && s.heads > 0 && s.kv_heads > 0 && s.head_dim > 0,
                 "attention needs sizes above 0, not hidden ", s.hidden, ", heads ", s.heads, ", key/value heads ",
                 s.kv_heads, ", head size ", s.head_dim);
  require_shared(s.heads % s.kv_heads == 0, s.heads, " query heads cannot share ", s.kv_heads,
                 " key/value heads evenly: heads must be a multiple of kv heads");
}

}  // namespace course
