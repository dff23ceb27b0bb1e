// The matrix product on cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

namespace course::cuda {

// Throws Error with cuBLAS's own words unless the status is CUBLAS_STATUS_SUCCESS.
void check(cublasStatus_t status, const char* call);

// c [M,N] = op(a) [M,K] · op(b) [K,N], or adds that to c; all row-major without gaps. A transposed matrix lies in
// memory as [K,M] or [N,K]. M or N of 0 does nothing; K of 0 gives zeros, or leaves c when it adds. Runs on the
// handle's stream. Throws where a size is more than 31 bits count.
void gemm(cublasHandle_t handle, int64_t M, int64_t N, int64_t K, const float* a, bool transpose_a, const float* b,
          bool transpose_b, bool add, float* c);

}  // namespace course::cuda
