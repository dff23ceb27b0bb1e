// Four elements that a thread reads or writes at once, f32 or bf16 in memory and always f32 in its registers. A warp then
// moves 512 bytes by one instruction instead of 128 (256 instead of 64 of bf16): it has more bytes under way, which is
// what reaches the bandwidth of the memory. A bf16 is rounded where it is stored, and only there.
//
//   for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
//     Four a = load(x + i, n - i);
//     for (float& v : a.at) v *= factor;
//     store(x + i, n - i, a);
//   }
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "common/backend/cuda/launch.hpp"

namespace course::cuda {

struct alignas(16) Four {
  float at[4];
};

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void put(float* to, float x) { *to = x; }
__device__ inline void put(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }  // to nearest, ties to even

// As they lie in memory. One access to all four needs an address that their size divides: a row starts at one where its
// length is a multiple of four.
template <typename T>
struct alignas(4 * sizeof(T)) Packed {
  T at[4];
};
template <typename T>
__device__ bool aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(Packed<T>) == 0;
}

// `left` is how many elements there are from here on, 0 or less past the end: those beyond are not read, and count as
// `beyond`.
template <typename T>
__device__ Four load(const T* from, int64_t left, float beyond = 0) {
  Four x;
  if (left >= 4 && aligned(from)) {
    const Packed<T> packed = *reinterpret_cast<const Packed<T>*>(from);
    for (int i = 0; i < 4; ++i) x.at[i] = wide(packed.at[i]);
  } else {
    for (int i = 0; i < 4; ++i) x.at[i] = i < left ? wide(from[i]) : beyond;
  }
  return x;
}

template <typename T>
__device__ void store(T* to, int64_t left, const Four& x) {
  if (left >= 4 && aligned(to)) {
    Packed<T> packed;
    for (int i = 0; i < 4; ++i) put(&packed.at[i], x.at[i]);
    *reinterpret_cast<Packed<T>*>(to) = packed;
    return;
  }
  for (int i = 0; i < 4; ++i)
    if (i < left) put(to + i, x.at[i]);
}

}  // namespace course::cuda
