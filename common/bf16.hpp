// The host's view of a bf16: the upper half of an f32. Rounds to nearest, ties to even; a NaN stays one.
// "BFLOAT16 - Hardware Numerics Definition", Intel, 2018
#pragma once

#include <bit>
#include <cstdint>

namespace course {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float x) {
    const uint32_t word = std::bit_cast<uint32_t>(x);
    const bool nan = (word & 0x7fffffff) > 0x7f800000;
    bits = static_cast<uint16_t>(nan ? word >> 16 | 0x40 : (word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }  // NOLINT: exact
};

// Writes an f32 as an element of either type, in loops for the vectoriser: it leaves a loop alone that makes a BFloat16 in
// its body, but not one that calls this.
inline void store(float& to, float x) { to = x; }
inline void store(BFloat16& to, float x) { to.bits = BFloat16(x).bits; }

}  // namespace course
