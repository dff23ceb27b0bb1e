#include "common/backend/cpu/plain_gemm.hpp"

namespace course::cpu {

const char* gemm_name() { return "plain loops"; }

void gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c, int64_t stride_c) {
  plain_gemm(M, N, K, factor, a, b, add, c, stride_c);
}

void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, float* c, int64_t stride_c) {
  plain_gemm(M, N, K, a, b, add, c, stride_c);
}

void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, BFloat16* c, int64_t stride_c) {
  plain_gemm(M, N, K, a, b, add, c, stride_c);
}

bool half_is_fast() { return false; }

}  // namespace course::cpu
