#include <cublas_v2.h>
#include <omp.h>

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

// A copy of the matrix for the product with TF32: `lines` of `length` elements that lie `step` apart.
std::vector<float> rounded(const void* x, int length, int lines, int step) {
  std::vector<float> copy(size_t(length) * lines);
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < length; ++i) copy[line * length + i] = tf32(static_cast<const float*>(x)[line * step + i]);
  return copy;
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
      factor != 1 || (before != 0 && before != 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(type_a, type_b, type_c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const auto multiply = [=, mode = handle->mode] {
    // Columns of one are rows of the other: cᵀ = op(b)ᵀ op(a)ᵀ.
    const bool t_a = op_a == CUBLAS_OP_T, t_b = op_b == CUBLAS_OP_T, adds = before == 1;
    if (type_a == CUDA_R_16BF) {
      const course::cpu::HalfMatrix first = {static_cast<const course::BFloat16*>(b), ldb, t_b};
      const course::cpu::HalfMatrix second = {static_cast<const course::BFloat16*>(a), lda, t_a};
      if (type_c == CUDA_R_16BF)
        course::cpu::gemm(n, m, k, first, second, adds, static_cast<course::BFloat16*>(c), ldc);
      else
        course::cpu::gemm(n, m, k, first, second, adds, static_cast<float*>(c), ldc);
    } else if (mode & CUBLAS_TF32_TENSOR_OP_MATH) {
      const std::vector<float> first = rounded(b, rows_b, columns_b, ldb), second = rounded(a, rows_a, columns_a, lda);
      course::cpu::gemm(n, m, k, 1, {first.data(), rows_b, t_b}, {second.data(), rows_a, t_a}, adds,
                        static_cast<float*>(c), ldc);
    } else {
      course::cpu::gemm(n, m, k, 1, {static_cast<const float*>(b), ldb, t_b}, {static_cast<const float*>(a), lda, t_a},
                        adds, static_cast<float*>(c), ldc);
    }
    return std::string();
  };
  const cudaError_t code =
      Gpu::get().put(handle->stream, "cublasGemmEx", {{a, false}, {b, false}, {c, true}}, multiply);
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
