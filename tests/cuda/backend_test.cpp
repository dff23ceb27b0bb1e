// What a GPU's backend promises beyond the results: the same bits each time, and words for what it does not take.
#include "common/backend/cuda/cuda_backend.hpp"
#include "common/rng.hpp"
#include "tests/support/catch.hpp"

using namespace course;

namespace {

std::vector<float> uniform(const char* name, int64_t n) {
  const Rng rng(9, name);
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(rng.uniform(i) - 0.4);
  return values;
}

// The outputs of every kernel that adds up, on sizes that many blocks share.
std::vector<std::vector<float>> outputs(CudaBackend& be) {
  const auto input = [&](const char* name, const Shape& shape) {
    return be.from_host(uniform(name, numel(shape)), shape);
  };
  std::vector<std::vector<float>> out;
  const auto keep = [&](std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* t : tensors) out.push_back(be.to_host(*t));
  };
  {
    const Tensor x = input("x", {601, 130}), dy = input("dy", {601, 130}), w = input("w", {130});
    Tensor y = be.empty(x.shape()), rstd = be.empty({601}), dx = be.empty(x.shape()), dw = be.zeros({130}),
           db = be.zeros({130}), table = be.zeros({40, 130});
    be.rms_norm(x, w, 1e-5f, y, rstd);
    be.rms_norm_backward(dy, x, w, rstd, dx, dw);
    be.sum_rows(dy, db);
    std::vector<int32_t> ids(601);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 50);
    be.embedding_backward(be.from_host(ids, {601}), dy, 5, table);
    keep({&y, &rstd, &dx, &dw, &db, &table});
    out.push_back({static_cast<float>(be.squared_norm(x))});
  }
  {
    const Tensor q = input("q", {2, 150, 4, 16}), k = input("k", {2, 160, 2, 16}), v = input("v", {2, 160, 2, 16});
    Tensor y = be.empty(q.shape()), lse = be.empty({2, 4, 150}), dq = be.empty(q.shape()), dk = be.empty(k.shape()),
           dv = be.empty(v.shape());
    be.attention(q, k, v, nullptr, y, lse);
    be.attention_backward(q, q, k, v, nullptr, y, lse, dq, dk, dv);
    keep({&y, &lse, &dq, &dk, &dv});
  }
  {
    const Tensor logits = input("logits", {130, 1300});
    Tensor max = be.empty({130}), sum = be.empty({130});
    be.row_max(logits, max);
    be.row_sum_exp(logits, max, sum);
    keep({&max, &sum});
  }
  return out;
}

}  // namespace

TEST_CASE("cuda backend: the same bits a second time") {
  CudaBackend be(0);
  const auto once = outputs(be), again = outputs(be);
  for (size_t i = 0; i < once.size(); ++i) {
    CAPTURE(i);
    CHECK(once[i] == again[i]);
  }
  CHECK(be.memory_use().now == 0);
}

TEST_CASE("cuda backend: what it does not take is refused in words") {
  CudaBackend be(0);
  Tensor half = be.empty({2, 3}, DType::BF16), f = be.zeros({2, 3}), whole = be.empty({2, 3}, DType::I32);
  CHECK_THROWS_WITH(be.fill(whole, 1), Catch::Contains("i32"));
  CHECK_THROWS_WITH(be.add(half, f), Catch::Contains("bf16") && Catch::Contains("f32"));
  CHECK_THROWS_WITH(be.gelu(f, Gelu::Tanh, half), Catch::Contains("bf16") && Catch::Contains("f32"));
  CHECK_THROWS_WITH(be.cast(whole, f), Catch::Contains("i32"));
  CHECK_THROWS_WITH(be.copy(half, f), Catch::Contains("bf16") && Catch::Contains("f32"));
  CHECK_THROWS_WITH(be.add(f, be.zeros({3, 2})), Catch::Contains("[3,2]"));
  Tensor c = be.zeros({2, 2}), half_c = be.empty({2, 2}, DType::BF16), whole_c = be.empty({2, 2}, DType::I32);
  CHECK_THROWS_WITH(be.matmul(half, false, f, true, c, false), Catch::Contains("matmul: ") && Catch::Contains("bf16"));
  CHECK_THROWS_WITH(be.matmul(f, false, f, true, half_c, false), Catch::Contains("matmul: ") && Catch::Contains("bf16"));
  CHECK_THROWS_WITH(be.matmul(whole, false, whole, true, whole_c, false), Catch::Contains("matmul: ") && Catch::Contains("i32"));
  const Tensor q = be.zeros({1, 2, 1, 257});
  Tensor y = be.zeros({1, 2, 1, 257}), lse = be.zeros({1, 1, 2});
  CHECK_THROWS_WITH(be.attention(q, q, q, nullptr, y, lse), Catch::Contains("257") && Catch::Contains("256"));
}

TEST_CASE("cuda backend: a position outside the table is said once, when the host waits; the rest is right") {
  CudaBackend be(0);
  const Tensor table = be.full({4, 1}, 1);
  const auto turned = [&](const std::vector<int32_t>& positions) {
    Tensor x = be.full({1, 2, 1, 2}, 3);
    be.rope(x, table, table, be.from_host(positions, {2}), false);
    return be.to_host(x);
  };
  CHECK_THROWS_WITH(turned({1, 4}), Catch::Contains("position 4 in a table of 4"));
  CHECK(turned({1, 3}) == std::vector<float>{0, 6, 0, 6});
}

TEST_CASE("cuda backend: f32 products are exact unless --tf32 is asked for") {
  constexpr int64_t n = 256;
  const float last = 1.0f / (1 << 12);  // of 1 + this, TF32 keeps 1
  for (const bool tf32 : {false, true}) {
    CudaBackend be(0, tf32);
    Tensor a = be.full({n, n}, 1 + last), one = be.full({n, n}, 1), c = be.empty({n, n});
    be.matmul(a, false, one, true, c, false);
    const float should = n * (tf32 ? 1 : 1 + last);
    CHECK(be.to_host(c) == std::vector<float>(n * n, should));
  }
}
