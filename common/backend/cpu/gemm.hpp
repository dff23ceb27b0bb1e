// The matrix product under everything. Two sources define it, CMake takes one: gemm_onednn.cpp where oneDNN is
// installed, else gemm_plain.cpp.
#pragma once

#include <cstdint>

#include "common/bf16.hpp"

namespace course::cpu {

// A matrix in memory: row-major, `stride` elements from one row to the next (at least the columns).
template <typename T>
struct MatrixOf {
  const T* data;
  int64_t stride;
  bool transposed = false;
};
using Matrix = MatrixOf<float>;
using HalfMatrix = MatrixOf<BFloat16>;

// c [M,N] = factor · a [M,K] · b [K,N], or adds that to c. A transposed matrix lies in memory as [K,M] or [N,K].
// M or N of 0 does nothing; K of 0 gives zeros, or leaves c when it adds. Inside a parallel region it runs on the
// calling thread alone, else on all threads.
void gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c, int64_t stride_c);

// The same of bf16, summed in f32; a bf16 c is rounded once. In plain loops where the processor has no instructions for it:
// oneDNN's products by those of AVX-512 alone take longer than f32's (2.6 times a step of `small` as long, 28 November 2026).
void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, float* c, int64_t stride_c);
void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, BFloat16* c, int64_t stride_c);
bool half_is_fast();  // whether the two above are worth their while here

// Who computes: "oneDNN" or "plain loops".
const char* gemm_name();

}  // namespace course::cpu
