#include "chapters/01_column_row_split/split.hpp"

#include <limits>

#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

struct Sizes {
  int64_t M, K, N, L;
};
// Even and uneven, more ranks than columns or rows, one number, long sums.
const Sizes all_sizes[] = {{3, 4, 6, 4}, {2, 5, 3, 7}, {5, 1, 1, 1}, {1, 3, 2, 5}, {7, 2, 9, 3}, {4, 37, 13, 11}};

// Small integers, alike on all ranks: sums are exact.
Tensor integers(const std::string& name, Shape shape) {
  const Rng rng(3, name);
  return make(std::move(shape), [&](int64_t i) { return static_cast<float>(int(rng.bits(i) % 19) - 9); });
}

// Y, with a loop and in double: by other code than a Backend's.
std::vector<float> by_hand(const Tensor& x, const Tensor& w) {
  const auto a = backend().to_host(x), b = backend().to_host(w);
  const int64_t M = x.dim(0), K = x.dim(1), N = w.dim(1);
  std::vector<float> y(M * N);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k) sum += double(a[m * K + k]) * b[k * N + n];
      y[m * N + n] = static_cast<float>(sum);
    }
  return y;
}

std::string shown(const Sizes& s) {
  return cat("M ", s.M, ", K ", s.K, ", N ", s.N, ", L ", s.L, " on rank ", world().rank(), " of ", world().size());
}

}  // namespace

TEST_CASE("a rank's shard is torch.chunk's piece") {
  const int P = world().size(), r = world().rank();
  for (const int64_t n : {0, 1, 3, 4, 5, 12}) {
    INFO(n << " columns on rank " << r << " of " << P);
    const Tensor whole = make({2, n}, [](int64_t i) { return static_cast<float>(i); });
    const Tensor mine = take_shard(backend(), world(), whole, 1);
    const int64_t full = (n + P - 1) / P, begin = std::min(n, r * full), end = std::min(n, begin + full);
    std::vector<float> expected;
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t i = begin; i < end; ++i) expected.push_back(static_cast<float>(row * n + i));
    CHECK(mine.shape() == Shape{2, end - begin});
    CHECK(backend().to_host(mine) == expected);
  }
}

TEST_CASE("joined shards are the whole, along every dim") {
  for (const Shape& shape : {Shape{5, 3, 4}, Shape{1, 1, 1}, Shape{2, 7, 3}, Shape{3, 0, 2}, Shape{8, 4, 6}})
    for (int64_t dim = 0; dim < 3; ++dim) {
      INFO(show(shape) << " along dim " << dim);
      const Tensor whole = random("whole", shape);
      const Tensor mine = take_shard(backend(), world(), whole, dim);
      Traffic traffic;
      Recorder seen(world(), traffic);
      CHECK(differs(join_shards(backend(), seen, mine, dim, shape[dim]), whole) == "");
      CHECK(traffic.total().calls == (world().size() > 1 ? 1 : 0));
      CHECK(traffic.bytes(Op::AllGather) == Approx((world().size() - 1.0) / world().size() * whole.bytes()));
    }
}

TEST_CASE("a shard of another size than torch.chunk's is refused") {
  const Tensor whole = random("whole", {4, 12});  // every rank brings one column too many
  const int64_t mine = chunk(12, world().size(), world().rank()).size;
  CHECK_THROWS_WITH(join_shards(backend(), world(), backend().slice(whole, 1, 0, mine - 1), 1, 12),
                    Catch::Matchers::Contains(cat("its piece has ", mine, " along dim 1")));
}

TEST_CASE("columns join to the product") {
  for (const Sizes& s : all_sizes) {
    INFO(shown(s));
    const Tensor x = integers("x", {s.M, s.K}), w = integers("w", {s.K, s.N});
    const Tensor mine = take_shard(backend(), world(), w, 1);
    Traffic traffic;
    Recorder seen(world(), traffic);
    const Tensor y = column_split(backend(), x, mine);
    CHECK(traffic.total().calls == 0);
    CHECK(y.shape() == Shape{s.M, mine.dim(1)});
    CHECK(backend().to_host(join_shards(backend(), seen, y, 1, s.N)) == by_hand(x, w));
  }
}

TEST_CASE("rows add to the product") {
  for (const Sizes& s : all_sizes) {
    INFO(shown(s));
    const int P = world().size();
    const Tensor x = integers("x", {s.M, s.K}), w = integers("w", {s.K, s.N});
    Traffic traffic;
    Recorder seen(world(), traffic);
    const Tensor y = row_split(backend(), seen, take_shard(backend(), seen, x, 1), take_shard(backend(), seen, w, 0));
    CHECK(backend().to_host(y) == by_hand(x, w));
    CHECK(traffic.count(Op::AllReduce) == (P > 1 ? 1 : 0));
    CHECK(traffic.bytes(Op::AllReduce) == Approx(2 * (P - 1.0) / P * s.M * s.N * 4));
    CHECK(traffic.total().calls == traffic.count(Op::AllReduce));

    const Tensor a = random("a", {s.M, s.K}), b = random("b", {s.K, s.N});  // real numbers: another order of additions
    CHECK(differs(row_split(backend(), seen, take_shard(backend(), seen, a, 1), take_shard(backend(), seen, b, 0)),
                  product(backend(), a, b), 1e-5) == "");
  }
}

TEST_CASE("two layers, either way round, and what each sends") {
  for (const Sizes& s : all_sizes) {
    INFO(shown(s));
    const int P = world().size();
    const double share = (P - 1.0) / P;
    const Tensor x = integers("x", {s.M, s.K}), w1 = integers("w1", {s.K, s.N}), w2 = integers("w2", {s.N, s.L});
    const Tensor h = product(backend(), x, w1);
    const auto z = by_hand(h, w2);
    Traffic traffic;
    Recorder seen(world(), traffic);
    const auto shard = [&](const Tensor& whole, int64_t dim) { return take_shard(backend(), seen, whole, dim); };

    CHECK(backend().to_host(column_then_row(backend(), seen, x, shard(w1, 1), shard(w2, 0))) == z);
    CHECK(traffic.count(Op::AllReduce) == (P > 1 ? 1 : 0));
    CHECK(traffic.total().calls == (P > 1 ? 1 : 0));
    CHECK(traffic.total().bytes == Approx(2 * share * s.M * s.L * 4));

    traffic.clear();
    CHECK(backend().to_host(row_then_column(backend(), seen, shard(x, 1), shard(w1, 0), shard(w2, 1), s.L)) == z);
    CHECK(traffic.count(Op::AllReduce) == (P > 1 ? 1 : 0));
    CHECK(traffic.count(Op::AllGather) == (P > 1 ? 1 : 0));
    CHECK(traffic.total().calls == (P > 1 ? 2 : 0));
    CHECK(traffic.total().bytes == Approx(share * (2 * s.M * s.N + s.M * s.L) * 4));
  }
}

TEST_CASE("the largest difference") {
  const Tensor a = make({2, 3}, [](int64_t i) { return float(i); });
  const Tensor b = make({2, 3}, [](int64_t i) { return float(i) + (i == 1 ? -2.5F : i == 4 ? 1 : 0); });
  CHECK(largest_difference(backend(), a, a) == 0);
  CHECK(largest_difference(backend(), a, b) == 2.5);
  CHECK(largest_difference(backend(), b, a) == 2.5);
  const Tensor nan =
      make({2, 3}, [](int64_t i) { return i == 2 ? std::numeric_limits<float>::quiet_NaN() : float(i); });
  CHECK(largest_difference(backend(), a, nan) == std::numeric_limits<double>::infinity());
  CHECK(largest_difference(backend(), a, backend().zeros({3, 2})) == std::numeric_limits<double>::infinity());
}

}  // namespace course::test
