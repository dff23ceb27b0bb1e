// Pieces, their products, and what is sent for them.
#include "chapters/01_column_row_split/split.hpp"
#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

namespace {

// The product by the definition, on every rank alone.
Tensor whole_product(Check& check, const Tensor& x, const Tensor& w) {
  const auto a = check.backend().to_host(x), b = check.backend().to_host(w);
  const int64_t M = x.dim(0), K = x.dim(1), N = w.dim(1);
  std::vector<float> y(M * N);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += double(a[m * K + k]) * b[k * N + n];
      y[m * N + n] = static_cast<float>(sum);
    }
  return check.backend().from_host(y, {M, N});
}

Tensor piece(Check& check, const Tensor& whole, int64_t dim) {
  const Chunk mine = chunk(whole.dim(dim), check.size(), check.rank());
  return check.backend().slice(whole, dim, mine.offset, mine.size);
}

Sent all_reduce_of(Check& check, int64_t elements) {
  return {1, ring_bytes(Op::AllReduce, 4.0 * static_cast<double>(elements), check.size())};
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "split", [](Check& check) {
    for (int round = 0; round < 4; ++round) {
      const auto size = [&](const char* name, int64_t least) { return check.random(cat(name, round), least, least + 6); };
      const int64_t M = size("M", 1), K = size("K", 3), N = size("N", 2), L = size("L", 1);
      check.begin(cat("X [", M, ",", K, "], W [", K, ",", N, "], V [", N, ",", L, "]"));
      const Tensor x = check.random("x", {M, K}), w = check.random("w", {K, N}), v = check.random("v", {N, L});
      const Tensor x_r = take_shard(check.backend(), check.world(), x, 1);
      check.equal("take_shard of X, by columns", x_r, piece(check, x, 1));
      check.equal("take_shard of W, by rows", take_shard(check.backend(), check.world(), w, 0), piece(check, w, 0));
      check.sent({});
      const Tensor y = whole_product(check, x, w);
      check.equal("row_split", row_split(check.backend(), check.world(), x_r, piece(check, w, 0)), y);
      check.sent({{Op::AllReduce, all_reduce_of(check, M * N)}});
      check.begin(cat("X [", M, ",", K, "], W [", K, ",", N, "], V [", N, ",", L, "]"));
      check.equal("column_then_row", column_then_row(check.backend(), check.world(), x, piece(check, w, 1), piece(check, v, 0)),
                  whole_product(check, y, v));
      check.sent({{Op::AllReduce, all_reduce_of(check, M * L)}});
    }
  });
}
