// The matrix product on cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

namespace course::cuda {

// Throws Error with cuBLAS's own words unless the status is CUBLAS_STATUS_SUCCESS.
void check(cublasStatus_t status, const char* call);

// How all products of a handle are computed: sums of f32 or bf16 are f32, of many parts too. With tf32, numbers of f32 are
// first rounded to the 10 bits of mantissa that the matrix units take: faster by far, and right to three digits.
void set_precision(cublasHandle_t handle, bool tf32);

// c [M,N] = op(a) [M,K] · op(b) [K,N], or adds that to c; all row-major without gaps. a and b are of type `in`, CUDA_R_32F
// or CUDA_R_16BF, c is of type `out`, that one or CUDA_R_32F. A transposed matrix lies in memory as [K,M] or [N,K]. M or N
// of 0 does nothing; K of 0 gives zeros, or leaves c when it adds. Runs on the handle's stream. Throws where a size is more
// than 31 bits count.
void gemm(cublasHandle_t handle, int64_t M, int64_t N, int64_t K, cudaDataType_t in, const void* a, bool transpose_a,
          const void* b, bool transpose_b, bool add, cudaDataType_t out, void* c);

}  // namespace course::cuda
