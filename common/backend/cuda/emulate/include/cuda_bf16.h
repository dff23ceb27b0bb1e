// A stand-in for the part of CUDA's bf16 that this project uses; CUDA Math API 13.0.
#pragma once

#include "common/bf16.hpp"

struct __nv_bfloat16 {
  course::BFloat16 value;
};

inline float __bfloat162float(__nv_bfloat16 x) { return x.value; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  __nv_bfloat16 y{course::BFloat16(x)};
  if (x != x) y.value.bits = 0x7fff;
  return y;
}
