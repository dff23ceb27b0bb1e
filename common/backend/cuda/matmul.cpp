#include "common/backend/cuda/matmul.hpp"

#include <limits>

#include "common/backend/cuda/kernels.hpp"
#include "common/check.hpp"

namespace course::cuda {

void check(cublasStatus_t status, const char* call) {
  require(status == CUBLAS_STATUS_SUCCESS, call, ": ", cublasGetStatusString(status));
}

void set_precision(cublasHandle_t handle, bool tf32) {
  const int mode = (tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH) |
                   CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)), "cublasSetMathMode");
}

// cuBLAS reads matrices by columns. Memory that holds c by rows holds cᵀ by columns, and cᵀ = bᵀ·aᵀ: with the operands
// swapped nothing needs to be turned.
void gemm(cublasHandle_t handle, int64_t M, int64_t N, int64_t K, cudaDataType_t in, const void* a, bool transpose_a,
          const void* b, bool transpose_b, bool add, cudaDataType_t out, void* c) {
  if (M == 0 || N == 0) return;
  if (K == 0) {
    cudaStream_t stream = nullptr;
    check(cublasGetStream(handle, &stream), "cublasGetStream");
    if (add) return;
    return out == CUDA_R_16BF ? fill(static_cast<bf16*>(c), M * N, 0, stream)
                              : fill(static_cast<float*>(c), M * N, 0, stream);
  }
  constexpr int64_t most = std::numeric_limits<int>::max();
  require(M <= most && N <= most && K <= most, "matmul: ", M, "x", N, "x", K, " is more than cuBLAS counts");
  const float one = 1, before = add ? 1 : 0;
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const int m = static_cast<int>(M), n = static_cast<int>(N), k = static_cast<int>(K);
  check(cublasGemmEx(handle, operation(transpose_b), operation(transpose_a), n, m, k, &one, b, in, transpose_b ? k : n,
                     a, in, transpose_a ? m : k, &before, c, out, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace course::cuda
