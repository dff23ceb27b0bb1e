#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/bf16.hpp"
#include "common/check.hpp"

using course::emulate::Gpu;

struct cublasContext {
  cudaStream_t stream = nullptr;
  int mode = CUBLAS_DEFAULT_MATH;
};

namespace {

// What the matrix units make of an f32 with TF32: 10 bits of mantissa, to nearest.
float tf32(float x) {
  if (x != x) return x;
  const auto word = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((word + 0xfff + (word >> 13 & 1)) & ~uint32_t{0x1fff});
}

// A matrix in f32: the memory itself, or a copy of it.
struct Matrix {
  std::vector<float> copy;
  const float* at;
  int step;  // from one line to the next
};
Matrix in_f32(const void* x, cudaDataType_t type, int length, int lines, int step, int mode) {
  const bool rounds = mode & CUBLAS_TF32_TENSOR_OP_MATH;
  if (type == CUDA_R_32F && !rounds) return {{}, static_cast<const float*>(x), step};
  Matrix m = {std::vector<float>(size_t(length) * lines), nullptr, length};
  m.at = m.copy.data();
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = line * step + i;
      m.copy[line * length + i] = type == CUDA_R_16BF ? static_cast<float>(static_cast<const course::BFloat16*>(x)[at])
                                                      : tf32(static_cast<const float*>(x)[at]);
    }
  return m;
}

bool supported(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c) {
  return a == b && (c == CUDA_R_32F || (c == CUDA_R_16BF && a == CUDA_R_16BF));
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_EXECUTION_FAILED) return cudaGetErrorString(Gpu::get().state());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return "the types do not go together";
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "invalid value";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
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

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType_t type_a, int lda, const void* b,
                            cudaDataType_t type_b, int ldb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  const int rows_a = op_a == CUBLAS_OP_N ? m : k, columns_a = op_a == CUBLAS_OP_N ? k : m;
  const int rows_b = op_b == CUBLAS_OP_N ? k : n, columns_b = op_b == CUBLAS_OP_N ? n : k;
  const float factor = *static_cast<const float*>(alpha), before = *static_cast<const float*>(beta);
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) || ldc < std::max(1, m) ||
      (before != 0 && before != 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(type_a, type_b, type_c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const auto multiply = [=, mode = handle->mode] {
    const Matrix of_a = in_f32(a, type_a, rows_a, columns_a, lda, mode);
    const Matrix of_b = in_f32(b, type_b, rows_b, columns_b, ldb, mode);
    const bool rounds = type_c == CUDA_R_16BF;
    Matrix of_c;
    if (rounds) of_c = in_f32(c, type_c, m, n, ldc, 0);
    // Columns of one are rows of the other: cᵀ = op(b)ᵀ op(a)ᵀ.
    course::cpu::gemm(n, m, k, factor, {of_b.at, of_b.step, op_b == CUBLAS_OP_T},
                      {of_a.at, of_a.step, op_a == CUBLAS_OP_T}, before == 1,
                      rounds ? of_c.copy.data() : static_cast<float*>(c), rounds ? m : ldc);
    if (rounds)
      for (int64_t column = 0; column < n; ++column)
        for (int64_t row = 0; row < m; ++row)
          static_cast<course::BFloat16*>(c)[column * ldc + row] = course::BFloat16(of_c.copy[column * m + row]);
    return std::string();
  };
  const cudaError_t code =
      Gpu::get().put(handle->stream, "cublasGemmEx", {{a, false}, {b, false}, {c, true}}, multiply);
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
