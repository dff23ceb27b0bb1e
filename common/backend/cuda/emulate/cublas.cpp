#include <cublas_v2.h>
#include <omp.h>

#include <algorithm>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/check.hpp"

using course::emulate::Gpu;

struct cublasContext {
  cudaStream_t stream = nullptr;
};

const char* cublasGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) return cudaGetErrorString(Gpu::get().state());
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "invalid value";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  omp_set_num_threads(1);  // there are more ranks than cores: a GPU is one thread
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                           const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, op_a == CUBLAS_OP_N ? m : k) ||
      ldb < std::max(1, op_b == CUBLAS_OP_N ? k : n) || ldc < std::max(1, m) || (*beta != 0 && *beta != 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  // Columns of one are rows of the other: cᵀ = op(b)ᵀ op(a)ᵀ.
  const cudaError_t code = Gpu::get().run(handle->stream, "cublasSgemm", {{a, false}, {b, false}, {c, true}}, [&] {
    course::cpu::gemm(n, m, k, *alpha, {b, ldb, op_b == CUBLAS_OP_T}, {a, lda, op_a == CUBLAS_OP_T}, *beta == 1, c, ldc);
    return std::string();
  });
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
