// The way to a fast kernel, in steps. Each function here computes what its neighbours do and waits less for memory than
// the one before; tests hold them to the same results, and benchmarks/gpu_kernels.cpp times each. The program itself
// uses the last step only.
//
//   RMSNorm   rms_norm_of_thread -> rms_norm_in_shared -> rms_norm_of_warp -> cuda::rms_norm (norm.cu)
//   softmax   softmax_of_thread  -> softmax_in_shared  -> softmax_online; in cross_entropy.cu the other ranks' sums come
//             between its parts
//   matmul    matmul_of_thread   -> matmul_in_shared   -> matmul_in_registers -> cuBLAS (matmul.cpp)
//
// Letters and arguments as in kernels.hpp; y may be x. Any size may be 0.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace course::cuda {

// rms_norm_steps.cu
void rms_norm_of_thread(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                        cudaStream_t stream);
void rms_norm_in_shared(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                        cudaStream_t stream);
void rms_norm_of_warp(const float* x, const float* weight, float eps, float* y, float* rstd, int64_t N, int64_t E,
                      cudaStream_t stream);

// softmax_steps.cu: y [N,E] is softmax of x, by row
void softmax_of_thread(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream);
void softmax_in_shared(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream);
void softmax_online(const float* x, float* y, int64_t N, int64_t E, cudaStream_t stream);

// matmul_steps.cu: c [M,N] = a [M,K] · b [K,N]
void matmul_of_thread(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K, cudaStream_t stream);
void matmul_in_shared(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K, cudaStream_t stream);
void matmul_in_registers(const float* a, const float* b, float* c, int64_t M, int64_t N, int64_t K,
                         cudaStream_t stream);

}  // namespace course::cuda
