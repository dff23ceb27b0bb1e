// The matrix product under everything. Two sources define it, CMake takes one: gemm_onednn.cpp where oneDNN is
// installed, else gemm_plain.cpp.
#pragma once

#include <cstdint>

namespace course::cpu {

// A matrix in memory: row-major, `stride` elements from one row to the next (at least the columns).
struct Matrix {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

// c [M,N] = factor · a [M,K] · b [K,N], or adds that to c. A transposed matrix lies in memory as [K,M] or [N,K].
// M or N of 0 does nothing; K of 0 gives zeros, or leaves c when it adds. Inside a parallel region it runs on the
// calling thread alone, else on all threads.
void gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c, int64_t stride_c);

// Who computes: "oneDNN" or "plain loops".
const char* gemm_name();

}  // namespace course::cpu
