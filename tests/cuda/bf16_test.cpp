// Each kernel in bf16 computes what it computes in f32 from the same numbers, and rounds that once. The sizes are those
// where a row of bf16 is not a multiple of the eight bytes that a thread reads at once, and the edges of the grids.
#include <cmath>
#include <limits>

#include "common/backend/cuda/cuda_backend.hpp"
#include "common/rng.hpp"
#include "tests/support/catch.hpp"

using namespace course;

namespace {

// The same numbers, all of them bf16's, in both types.
struct Both {
  Tensor wide, narrow;
};

struct Card {
  CudaBackend be{0};

  Tensor narrowed(const Tensor& x) {
    Tensor y = be.empty(x.shape(), DType::BF16);
    be.cast(x, y);
    return y;
  }
  Tensor widened(const Tensor& x) {
    Tensor y = be.empty(x.shape());
    be.cast(x, y);
    return y;
  }
  Tensor uniform(const std::string& name, Shape shape, float size = 1) {
    const Rng rng(31, name);
    std::vector<float> values(numel(shape));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * rng.uniform(i) - 1) * size;
    return be.from_host(values, std::move(shape));
  }
  Both both(const std::string& name, Shape shape, float size = 1) {
    Tensor narrow = narrowed(uniform(name, std::move(shape), size));
    Tensor wide = widened(narrow);
    return {std::move(wide), std::move(narrow)};
  }
  Both room(const Shape& shape) { return {be.empty(shape), be.empty(shape, DType::BF16)}; }
  Both copy(const Both& x) { return {be.clone(x.wide), be.clone(x.narrow)}; }
  Tensor ints(const std::vector<int32_t>& values) {
    return be.from_host(values, {static_cast<int64_t>(values.size())});
  }

  // "" where each number of y.narrow is the bf16 next to that of y.wide. f32 itself may be off by `slack` of the
  // number and of what it is a sum of: a compiler may fuse other products with sums for one type than for the other.
  std::string unrounded(const Both& y, double slack = 1e-6) {
    const std::vector<float> wide = be.to_host(y.wide), narrow = be.to_host(widened(y.narrow));
    double squares = 0;
    for (const float x : wide) squares += double(x) * x;
    const double rms = wide.empty() ? 0 : std::sqrt(squares / static_cast<double>(wide.size()));
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] == narrow[i]) continue;
      const double half_place = wide[i] == 0 ? 0 : std::ldexp(1.0, std::ilogb(wide[i]) - 8);
      if (std::abs(double(wide[i]) - narrow[i]) <= half_place + slack * (std::abs(double(wide[i])) + rms)) continue;
      return cat(show(y.wide.shape()), " element ", i, ": ", wide[i], " became ", narrow[i]);
    }
    return "";
  }
  // The same for two results in f32.
  std::string apart(const Tensor& a, const Tensor& b, double slack = 1e-6) {
    const std::vector<float> x = be.to_host(a), y = be.to_host(b);
    double squares = 0;
    for (const float v : x) squares += double(v) * v;
    const double rms = x.empty() ? 0 : std::sqrt(squares / static_cast<double>(x.size()));
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i] != y[i] && !(std::abs(double(x[i]) - y[i]) <= slack * (std::abs(double(x[i])) + rms)))
        return cat(show(a.shape()), " element ", i, ": ", x[i], " and ", y[i]);
    return "";
  }
};

const int64_t kCounts[] = {0, 1, 2, 3, 4, 5, 7, 1023, 1024, 1029, 5001};
const Shape kRows[] = {{0, 4}, {3, 0}, {1, 1}, {6, 17}, {37, 8}, {70, 9}, {5, 1030}, {3, 12301}, {515, 30}};

}  // namespace

TEST_CASE("bf16: a cast rounds to nearest, ties to even, and keeps what is no number") {
  Card card;
  const float inf = std::numeric_limits<float>::infinity();
  const float tie = std::ldexp(1.0f, -8);  // half of bf16's last place at 1
  const std::vector<float> x = {1 + tie, 1 + 3 * tie, 1 + tie * 1.01f, -1 - tie, 0.0f, -0.0f, inf, -inf, 3.4e38f, 1e-40f,
                                256, 257};
  const std::vector<float> y = {1, 1 + 4 * tie, 1 + 2 * tie, -1, 0.0f, -0.0f, inf, -inf, inf, 9.18354962e-41f,
                                256, 256};
  const Tensor from = card.be.from_host(x, {12}), nan = card.be.from_host(std::vector<float>{NAN}, {1});
  const std::vector<float> seen = card.be.to_host(card.widened(card.narrowed(from)));
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    CHECK(seen[i] == y[i]);
    CHECK(std::signbit(seen[i]) == std::signbit(y[i]));
  }
  CHECK(std::isnan(card.be.to_host(card.widened(card.narrowed(nan)))[0]));
  for (const int64_t n : kCounts) {
    CAPTURE(n);
    const Tensor some = card.uniform("some", {n});
    const Both rounded = {card.be.clone(some), card.narrowed(some)};
    CHECK(card.unrounded(rounded, 0) == "");
    const auto host = card.be.to_host<BFloat16>(rounded.narrow);  // the host rounds as the card does
    const auto should = card.be.to_host(some);
    for (int64_t i = 0; i < n; ++i) CHECK(host[i].bits == BFloat16(should[i]).bits);
    Tensor again = card.be.empty({n}, DType::BF16);
    card.be.cast(rounded.narrow, again);  // equal types
    CHECK(card.be.to_host(card.widened(again)) == card.be.to_host(card.widened(rounded.narrow)));
  }
}

TEST_CASE("bf16: elements") {
  Card card;
  for (const int64_t n : kCounts) {
    CAPTURE(n);
    const Both x = card.both("x", {n}), y = card.both("y", {n});
    Both z = card.copy(x);
    card.be.add(z.wide, y.wide), card.be.add(z.narrow, y.narrow);
    CHECK(card.unrounded(z, 0) == "");
    Tensor sum = card.be.clone(x.wide);
    card.be.add(sum, y.narrow);  // f32 takes bf16 as it is
    CHECK(card.apart(z.wide, sum, 0) == "");
    z = card.copy(x);
    card.be.scale(z.wide, 0.3f), card.be.scale(z.narrow, 0.3f);
    CHECK(card.unrounded(z, 0) == "");
    card.be.fill(z.wide, 0.3f), card.be.fill(z.narrow, 0.3f);
    CHECK(card.unrounded(z, 0) == "");
    CHECK(card.be.squared_norm(x.wide) == card.be.squared_norm(x.narrow));
  }
  for (const Shape& shape : kRows) {
    CAPTURE(show(shape));
    const Both bias = card.both("bias", {shape[1]});
    Both y = card.both("y", shape);
    Tensor sums = card.be.zeros({shape[1]}), others = card.be.zeros({shape[1]});
    card.be.sum_rows(y.wide, sums), card.be.sum_rows(y.narrow, others);
    CHECK(card.apart(sums, others) == "");
    card.be.add_bias(y.wide, bias.wide), card.be.add_bias(y.narrow, bias.narrow);
    CHECK(card.unrounded(y, 0) == "");
  }
}

TEST_CASE("bf16: gradients add in f32") {
  Card card;
  Tensor sum = card.be.zeros({1});
  const Tensor one = card.narrowed(card.be.full({1}, 1)), much = card.narrowed(card.be.full({1}, 256));
  card.be.add(sum, much);
  card.be.add(sum, one);
  CHECK(card.be.to_host(sum)[0] == 257);
}

TEST_CASE("bf16: matrix products") {
  Card card;
  struct Size {
    int64_t M, N, K;
  };
  for (const auto& [M, N, K] : {Size{1, 1, 1}, Size{33, 20, 17}, Size{64, 300, 40}, Size{5, 131, 3}, Size{0, 3, 2},
                                Size{2, 0, 3}, Size{3, 2, 0}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const bool adds : {false, true}) {
          CAPTURE(M, N, K, ta, tb, adds);
          const Both a = card.both("a", ta ? Shape{K, M} : Shape{M, K}), b = card.both("b", tb ? Shape{N, K} : Shape{K, N});
          Both c = card.both("c", {M, N});
          Tensor sums = card.be.clone(c.wide);
          card.be.matmul(a.wide, ta, b.wide, tb, c.wide, adds);
          card.be.matmul(a.narrow, ta, b.narrow, tb, c.narrow, adds);
          card.be.matmul(a.narrow, ta, b.narrow, tb, sums, adds);
          CHECK(card.unrounded(c, 1e-5) == "");
          CHECK(card.apart(c.wide, sums, 1e-5) == "");
        }
}

TEST_CASE("bf16: RMSNorm") {
  Card card;
  for (const Shape& shape : kRows) {
    CAPTURE(show(shape));
    const int64_t N = shape[0], E = shape[1];
    const Both x = card.both("x", shape, 3), weight = card.both("weight", {E}), dy = card.both("dy", shape);
    Both y = card.room(shape), dx = card.room(shape);
    Tensor rstd = card.be.empty({N}), other = card.be.empty({N});
    Tensor dweight = card.be.zeros({E}), other_dweight = card.be.zeros({E});
    card.be.rms_norm(x.wide, weight.wide, 0.1f, y.wide, rstd);
    card.be.rms_norm(x.narrow, weight.narrow, 0.1f, y.narrow, other);
    CHECK(card.unrounded(y) == "");
    if (E) CHECK(card.apart(rstd, other) == "");
    card.be.rms_norm_backward(dy.wide, x.wide, weight.wide, rstd, dx.wide, dweight);
    card.be.rms_norm_backward(dy.narrow, x.narrow, weight.narrow, rstd, dx.narrow, other_dweight);
    CHECK(card.unrounded(dx) == "");
    CHECK(card.apart(dweight, other_dweight) == "");
  }
}

TEST_CASE("bf16: activations") {
  Card card;
  for (const int64_t n : kCounts) {
    CAPTURE(n);
    const Both x = card.both("x", {n}, 4), up = card.both("up", {n}), dy = card.both("dy", {n});
    Both y = card.room({n}), dgate = card.room({n}), dup = card.room({n});
    for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
      card.be.gelu(x.wide, kind, y.wide), card.be.gelu(x.narrow, kind, y.narrow);
      CHECK(card.unrounded(y) == "");
      card.be.gelu_backward(dy.wide, x.wide, kind, y.wide), card.be.gelu_backward(dy.narrow, x.narrow, kind, y.narrow);
      CHECK(card.unrounded(y) == "");
    }
    card.be.silu_mul(x.wide, up.wide, y.wide), card.be.silu_mul(x.narrow, up.narrow, y.narrow);
    CHECK(card.unrounded(y) == "");
    card.be.silu_mul_backward(dy.wide, x.wide, up.wide, dgate.wide, dup.wide);
    card.be.silu_mul_backward(dy.narrow, x.narrow, up.narrow, dgate.narrow, dup.narrow);
    CHECK(card.unrounded(dgate) == "");
    CHECK(card.unrounded(dup) == "");
  }
}

TEST_CASE("bf16: embedding") {
  Card card;
  for (const auto& [N, R, E] : {std::tuple<int64_t, int64_t, int64_t>{0, 3, 4}, {7, 0, 4}, {5, 3, 0}, {9, 4, 1}, {600, 11, 17},
                                {300, 700, 33}, {40, 5, 1030}}) {
    CAPTURE(N, R, E);
    std::vector<int32_t> ids(N);
    for (int64_t n = 0; n < N; ++n) ids[n] = static_cast<int32_t>(n * n % (R + 4));
    const Tensor places = card.ints(ids);
    const Both table = card.both("table", {R, E}), dy = card.both("dy", {N, E});
    Both y = card.room({N, E});
    card.be.embedding(places, table.wide, 2, y.wide), card.be.embedding(places, table.narrow, 2, y.narrow);
    CHECK(card.unrounded(y, 0) == "");
    Tensor dtable = card.be.zeros({R, E}), other = card.be.zeros({R, E});
    card.be.embedding_backward(places, dy.wide, 2, dtable), card.be.embedding_backward(places, dy.narrow, 2, other);
    CHECK(card.apart(dtable, other, 0) == "");
  }
}

TEST_CASE("bf16: rope") {
  Card card;
  for (const auto& [B, S, H, D] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{2, 3, 5, 6}, {2, 20, 3, 34}, {1, 1, 1, 2},
                                   {2, 7, 4, 64}, {2, 0, 3, 4}, {2, 3, 0, 4}, {2, 3, 4, 0}}) {
    CAPTURE(B, S, H, D);
    std::vector<int32_t> places(S);
    for (int64_t s = 0; s < S; ++s) places[s] = static_cast<int32_t>(s * 5 % 9);
    const Tensor cos = card.uniform("cos", {9, D / 2}), sin = card.uniform("sin", {9, D / 2}), positions = card.ints(places);
    for (const bool backward : {false, true}) {
      Both x = card.both("x", {B, S, H, D});
      card.be.rope(x.wide, cos, sin, positions, backward), card.be.rope(x.narrow, cos, sin, positions, backward);
      CHECK(card.unrounded(x) == "");
    }
  }
}

TEST_CASE("bf16: attention, for each size of head") {
  Card card;
  struct Case {
    int64_t B, S, T, H, K, D;
    bool masked;
  };
  for (const auto& [B, S, T, H, K, D, masked] :
       {Case{2, 5, 5, 4, 2, 6, false}, Case{1, 70, 75, 2, 1, 33, true}, Case{2, 9, 9, 2, 2, 64, true},
        Case{1, 66, 70, 3, 1, 100, false}, Case{1, 40, 41, 2, 1, 130, true}, Case{2, 0, 3, 4, 2, 6, false},
        Case{2, 3, 4, 4, 2, 0, false}, Case{2, 3, 4, 0, 0, 5, false}}) {
    CAPTURE(B, S, T, H, K, D, masked);
    const Both q = card.both("q", {B, S, H, D}, 2), k = card.both("k", {B, T, K, D}, 2), v = card.both("v", {B, T, K, D}),
               dy = card.both("dy", {B, S, H, D});
    std::vector<int32_t> seen(B * T, 1);
    for (size_t i = 0; i < seen.size(); i += 7) seen[i] = 0;
    const Tensor mask = card.be.from_host(seen, {B, T});
    const Tensor* const attend = masked ? &mask : nullptr;
    Both y = card.room({B, S, H, D}), dq = card.room({B, S, H, D}), dk = card.room({B, T, K, D}), dv = card.room({B, T, K, D});
    Tensor lse = card.be.empty({B, H, S}), other = card.be.empty({B, H, S});
    card.be.attention(q.wide, k.wide, v.wide, attend, y.wide, lse);
    card.be.attention(q.narrow, k.narrow, v.narrow, attend, y.narrow, other);
    CHECK(card.unrounded(y, 3e-6) == "");
    CHECK(card.apart(lse, other) == "");
    const Tensor kept = card.widened(y.narrow);  // backward has y as it was rounded
    card.be.attention_backward(dy.wide, q.wide, k.wide, v.wide, attend, kept, lse, dq.wide, dk.wide, dv.wide);
    card.be.attention_backward(dy.narrow, q.narrow, k.narrow, v.narrow, attend, y.narrow, lse, dq.narrow, dk.narrow,
                               dv.narrow);
    CHECK(card.unrounded(dq, 1e-5) == "");
    CHECK(card.unrounded(dk, 1e-5) == "");
    CHECK(card.unrounded(dv, 1e-5) == "");
  }
}

TEST_CASE("bf16: cross-entropy") {
  Card card;
  for (const Shape& shape : kRows) {
    CAPTURE(show(shape));
    const int64_t N = shape[0], R = shape[1];
    Both logits = card.both("logits", shape, 5);
    std::vector<int32_t> targets(N);
    for (int64_t n = 0; n < N; ++n) targets[n] = static_cast<int32_t>(n % 5 == 4 ? -100 : 3 + n * 7 % (R + 2));
    const Tensor labels = card.ints(targets);
    Tensor max = card.be.empty({N}), sum = card.be.empty({N}), picked = card.be.empty({N});
    Tensor other_max = card.be.empty({N}), other_sum = card.be.empty({N}), other_picked = card.be.empty({N});
    card.be.row_max(logits.wide, max), card.be.row_max(logits.narrow, other_max);
    CHECK(card.apart(max, other_max, 0) == "");
    card.be.row_sum_exp(logits.wide, max, sum), card.be.row_sum_exp(logits.narrow, max, other_sum);
    CHECK(card.apart(sum, other_sum) == "");
    card.be.pick(logits.wide, labels, 3, picked), card.be.pick(logits.narrow, labels, 3, other_picked);
    CHECK(card.apart(picked, other_picked, 0) == "");
    card.be.cross_entropy_backward(logits.wide, max, sum, labels, 3, -100, 0.25f);
    card.be.cross_entropy_backward(logits.narrow, max, sum, labels, 3, -100, 0.25f);
    CHECK(card.unrounded(logits) == "");
  }
}
