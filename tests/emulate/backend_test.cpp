// What a GPU's backend asks of its card, where the emulation can say more than a card.
#include <cstdlib>

#include "tests/emulate/kernels.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;
using cuda::launch;
using cuda::Stream;

namespace {

__global__ void read_first(const float* x, float* y) { y[0] = x[0]; }

}  // namespace

TEST_CASE("emulation: rope looks at its positions without making the host wait") {
  CudaBackend be(0);
  Stream other(0);
  OnDevice seen(1, other);
  const Tensor table = be.full({4, 1}, 1), positions = be.from_host(std::vector<int32_t>{1, 2}, {2});
  Tensor x = be.full({1, 2, 1, 2}, 3), before = be.full({1}, 1);
  be.rope(x, table, table, positions, false);
  // Had the host waited, what came before would be done for every stream.
  CHECK_THAT(said([&] { launch(read_first, 1, 1, 0, other, before.data<float>(), seen.data); }),
             Contains("nothing makes it wait"));
}

TEST_CASE("emulation: cuBLAS takes the types and sizes that it takes on a GPU") {
  Stream stream(0);
  OnDevice a(64, stream), b(64, stream), c(64, stream);
  cublasHandle_t blas;
  REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  cublasSetStream(blas, stream);
  const float one = 1, none = 0;
  const auto product = [&](cudaDataType_t of_a, cudaDataType_t of_b, cudaDataType_t of_c, cublasOperation_t op_a, int lda,
                           int ldb, int ldc) {
    return cublasGemmEx(blas, op_a, CUBLAS_OP_N, 2, 3, 4, &one, a.data, of_a, lda, b.data, of_b, ldb, &none, c.data, of_c,
                        ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  constexpr auto f32 = CUDA_R_32F, bf16 = CUDA_R_16BF;
  for (const auto& [in, out] : {std::pair{f32, f32}, std::pair{bf16, bf16}, std::pair{bf16, f32}}) {
    CHECK(product(in, in, out, CUBLAS_OP_N, 2, 4, 2) == CUBLAS_STATUS_SUCCESS);
    CHECK(product(in, in, out, CUBLAS_OP_T, 4, 4, 2) == CUBLAS_STATUS_SUCCESS);
    CHECK(product(in, in, out, CUBLAS_OP_N, 1, 4, 2) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(product(in, in, out, CUBLAS_OP_T, 2, 4, 2) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(product(in, in, out, CUBLAS_OP_N, 2, 3, 2) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(product(in, in, out, CUBLAS_OP_N, 2, 4, 1) == CUBLAS_STATUS_INVALID_VALUE);
  }
  CHECK(product(f32, bf16, f32, CUBLAS_OP_N, 2, 4, 2) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product(f32, f32, bf16, CUBLAS_OP_N, 2, 4, 2) == CUBLAS_STATUS_NOT_SUPPORTED);
  cublasDestroy(blas);
}
