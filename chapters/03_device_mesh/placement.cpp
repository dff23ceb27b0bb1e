#include "chapters/03_device_mesh/placement.hpp"

namespace course {

std::string show(const Placement& p) {
  if (const Shard* s = as_shard(p))
    return s->block == 1 ? cat("S(", s->dim, ")") : cat("S(", s->dim, ",/", s->block, ")");
  return is_partial(p) ? "P" : "R";
}

std::string show(const Placements& ps) {
  std::string text = "[";
  for (size_t i = 0; i < ps.size(); ++i) text += (i ? "," : "") + show(ps[i]);
  return text + "]";
}

Placement from_front(const Placement& p, int64_t dims) {
  const Shard* s = as_shard(p);
  if (!s) return p;
  require(s->dim >= -dims && s->dim < dims, "a tensor of ", dims, " dims cannot be placed as ", show(p));
  return Shard{s->dim < 0 ? s->dim + dims : s->dim, s->block};
}

}  // namespace course
