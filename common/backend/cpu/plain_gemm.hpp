// The matrix product in plain loops, with nothing but a compiler: what runs where oneDNN is missing, and what oneDNN is
// checked against.
#pragma once

#include "common/backend/cpu/gemm.hpp"

namespace course::cpu {

// As gemm(). The bits do not depend on the number of threads.
void plain_gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c,
                int64_t stride_c);
void plain_gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, float* c, int64_t stride_c);
void plain_gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, BFloat16* c, int64_t stride_c);

}  // namespace course::cpu
