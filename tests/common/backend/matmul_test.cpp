#include "common/backend/cpu/plain_gemm.hpp"
#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {
struct Size {
  int64_t M, N, K;
};
const std::vector<Size> kSizes = {{1, 1, 1},      {3, 5, 7},      {1, 40, 9}, {33, 1, 65}, {64, 48, 32}, {67, 35, 129},
                                  {13, 100, 300}, {200, 70, 513}, {0, 5, 3},  {5, 0, 3},   {5, 3, 0},    {0, 0, 0}};

// Products of parts of larger matrices, each operand either way round.
struct View {
  int64_t M, N, K;
  bool ta, tb, add;
  int64_t stride_a, stride_b, stride_c;
};
std::vector<View> views() {
  std::vector<View> all;
  for (const auto& [M, N, K] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const bool add : {false, true}) all.push_back({M, N, K, ta, tb, add, (ta ? M : K) + 3, (tb ? K : N) + 5, N + 2});
  return all;
}

}  // namespace

TEST_CASE("matmul: all four transpositions, written over and added") {
  Backend& be = backend();
  for (const auto& [M, N, K] : kSizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        CAPTURE(M, N, K, ta, tb);
        const Tensor a = random("a", ta ? Shape{K, M} : Shape{M, K}), b = random("b", tb ? Shape{N, K} : Shape{K, N});
        Tensor c = random("c", {M, N});
        const Values before = values_of(c);
        Values twin = twin::matmul(values_of(a), ta, values_of(b), tb, M, N, K);
        be.matmul(a, ta, b, tb, c);
        CHECK(far(c, twin, 1e-5) == "");
        c = random("c", {M, N});
        be.matmul(a, ta, b, tb, c, true);
        for (size_t i = 0; i < twin.size(); ++i) twin[i] += before[i];
        CHECK(far(c, twin, 1e-5) == "");
      }
}

TEST_CASE("matmul: leading dims fold into rows") {
  Backend& be = backend();
  const Tensor x = random("x", {2, 3, 5}), w = random("w", {7, 5}), dy = random("dy", {2, 3, 7});
  Tensor y = be.empty({2, 3, 7}), dw = be.empty({7, 5});
  be.matmul(x, false, w, true, y);
  CHECK(far(y, twin::matmul(values_of(x), false, values_of(w), true, 6, 7, 5)) == "");
  be.matmul(dy, true, x, false, dw);
  CHECK(far(dw, twin::matmul(values_of(dy), true, values_of(x), false, 7, 5, 6)) == "");
}

TEST_CASE("matmul: shapes that do not fit are refused with the shapes") {
  Backend& be = backend();
  Tensor c = be.zeros({2, 4});
  CHECK_THROWS_WITH(be.matmul(be.zeros({2, 3}), false, be.zeros({5, 4}), false, c),
                    Catch::Contains("[2,3]") && Catch::Contains("[5,4]"));
  CHECK_THROWS_AS(be.matmul(be.zeros({2, 3}), false, be.zeros({3, 5}), false, c), Error);
  CHECK_THROWS_WITH(be.matmul(be.empty({2, 3}, DType::BF16), false, be.zeros({3, 4}), false, c),
                    Catch::Contains("bf16"));
}

// On strided views, as attention calls it, and the twin of oneDNN's.
TEST_CASE("gemm: plain loops agree with the fast one, on parts of larger matrices") {
  for (const auto& [M, N, K, ta, tb, add, stride_a, stride_b, stride_c] : views()) {
    CAPTURE(M, N, K, ta, tb, add);
    std::vector<float> a((ta ? K : M) * stride_a), b((tb ? N : K) * stride_b), c(M * stride_c);
    const Rng rng(3, "gemm");
    for (size_t i = 0; i < a.size(); ++i) a[i] = rng.uniform(i) - 0.5;
    for (size_t i = 0; i < b.size(); ++i) b[i] = rng.uniform(i + 100000) - 0.5;
    for (size_t i = 0; i < c.size(); ++i) c[i] = rng.uniform(i + 200000) - 0.5;
    std::vector<float> plain = c, twin = c;
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < K; ++k)
          sum += double(ta ? a[k * stride_a + m] : a[m * stride_a + k]) *
                 (tb ? b[n * stride_b + k] : b[k * stride_b + n]);
        twin[m * stride_c + n] = (add ? c[m * stride_c + n] : 0) - 0.7 * sum;
      }
    cpu::gemm(M, N, K, -0.7f, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, c.data(), stride_c);
    cpu::plain_gemm(M, N, K, -0.7f, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, plain.data(),
                    stride_c);
    CHECK(differs(c, twin, {M, stride_c}, 1e-5) == "");
    CHECK(differs(plain, twin, {M, stride_c}, 1e-5) == "");
  }
}

// Where a processor has no bf16 the loops are all there is.
TEST_CASE("gemm: plain loops agree with the fast one in bf16, on parts of larger matrices") {
  const auto halves = [](int64_t n, int64_t from) {
    const Rng rng(3, "gemm");
    std::vector<BFloat16> x(n);
    for (int64_t i = 0; i < n; ++i) x[i] = BFloat16(static_cast<float>(rng.uniform(from + i) - 0.5));
    return x;
  };
  for (const auto& [M, N, K, ta, tb, add, stride_a, stride_b, stride_c] : views()) {
    CAPTURE(M, N, K, ta, tb, add);
    const auto a = halves((ta ? K : M) * stride_a, 0), b = halves((tb ? N : K) * stride_b, 100000);
    std::vector<BFloat16> c = halves(M * stride_c, 200000), plain = c;
    std::vector<float> sums(c.begin(), c.end()), plain_sums = sums;
    cpu::gemm(M, N, K, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, c.data(), stride_c);
    cpu::plain_gemm(M, N, K, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, plain.data(), stride_c);
    cpu::gemm(M, N, K, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, sums.data(), stride_c);
    cpu::plain_gemm(M, N, K, {a.data(), stride_a, ta}, {b.data(), stride_b, tb}, add, plain_sums.data(),
                    stride_c);
    const auto wide = [](const std::vector<BFloat16>& x) { return std::vector<float>(x.begin(), x.end()); };
    CHECK(differs(plain_sums, sums, {M, stride_c}, 1e-5) == "");
    CHECK(differs(wide(c), sums, {M, stride_c}, 1.0 / 256) == "");
    CHECK(differs(wide(plain), sums, {M, stride_c}, 1.0 / 256) == "");
  }
}
