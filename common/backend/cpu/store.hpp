// Writes an f32 result as an element of either type, inside loops for the vectoriser: it leaves a loop alone that makes
// a BFloat16 in its body, but not one that calls this.
#pragma once

#include "common/bf16.hpp"

namespace course::cpu {

inline void store(float& to, float x) { to = x; }
inline void store(BFloat16& to, float x) { to.bits = BFloat16(x).bits; }

}  // namespace course::cpu
