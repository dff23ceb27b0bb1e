// Every kernel in bf16 against itself in f32, on the same inputs, which bf16 holds exactly: a bf16 result is then the
// f32 one rounded once, and an f32 result the same to the order of additions.
#include <cmath>
#include <limits>

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr double kRounded = 1.0 / 256, kSame = 1e-5;  // rounding once is off by half of this, relative

// The same values in both types.
struct Pair {
  Tensor f32, bf16;
  Pair(const std::string& name, Shape shape, float size = 1) : bf16(half(random(name, std::move(shape), size))) {
    f32 = wide(bf16);
  }
};

// Two outputs to fill, holding other values before.
struct Outputs {
  Tensor f32, bf16;
  explicit Outputs(Shape shape) : f32(backend().full(shape, 7)), bf16(half(f32)) {}
  std::string differ() const { return differs(wide(bf16), f32, kRounded); }
};

const std::vector<Shape> kShapes = {{3, 5}, {2, 3, 17}, {1, 1}, {37, 40}, {0, 4}, {3, 0}, {129, 130}};

}  // namespace

TEST_CASE("bf16: casts round to nearest, ties to even, and keep infinities and NaN") {
  Backend& be = backend();
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const std::vector<float> exact = {0, -1, 0.99609375f, 3.0e38f, inf, -inf};
  const std::vector<float> in = {1.00390625f, 1.01171875f, 0.997f, -1.0039064f, 257, 3.4e38f};
  const std::vector<float> out = {1, 1.015625f, 0.99609375f, -1.0078125f, 256};
  const std::vector<float> got = be.to_host(wide(half(be.from_host(in, {6}))));
  for (size_t i = 0; i < out.size(); ++i) CHECK(got[i] == out[i]);
  CHECK(std::isinf(got[5]));
  const std::vector<float> kept = be.to_host(wide(half(be.from_host(exact, {6}))));
  CHECK(kept[2] == exact[2]);
  CHECK(std::isinf(kept[4]));
  CHECK(kept[5] == -inf);
  CHECK(std::isnan(be.to_host(wide(half(be.from_host(std::vector<float>{nan}, {1}))))[0]));
  Tensor y = be.zeros({1});
  CHECK_THROWS_WITH(be.cast(ints({1}, {1}), y), Catch::Contains("i32 is neither f32 nor bf16"));
}

TEST_CASE("bf16: elements") {
  Backend& be = backend();
  for (const Shape& shape : kShapes) {
    CAPTURE(show(shape));
    Pair x("x", shape), y("y", shape), bias("bias", {shape.back()});
    CHECK(be.squared_norm(x.bf16) == Approx(be.squared_norm(x.f32)));
    Tensor sum = random("sum", shape), other = be.clone(sum);
    be.add(sum, x.bf16), be.add(other, x.f32);
    CHECK(differs(sum, other) == "");  // what sums stays f32
    Tensor dbias = random("dbias", {shape.back()}), dbias32 = be.clone(dbias);
    be.sum_rows(x.bf16, dbias), be.sum_rows(x.f32, dbias32);
    CHECK(differs(dbias, dbias32, kSame) == "");
    be.add(x.bf16, y.bf16), be.add(x.f32, y.f32);
    CHECK(differs(wide(x.bf16), x.f32, kRounded) == "");
    be.scale(y.bf16, 0.3f), be.scale(y.f32, 0.3f);
    CHECK(differs(wide(y.bf16), y.f32, kRounded) == "");
    Pair z("z", shape);
    be.add_bias(z.bf16, bias.bf16), be.add_bias(z.f32, bias.f32);
    CHECK(differs(wide(z.bf16), z.f32, kRounded) == "");
    be.fill(z.bf16, 257), be.fill(z.f32, 256);
    CHECK(differs(wide(z.bf16), z.f32) == "");
  }
}

TEST_CASE("bf16: matmul, all transpositions, to bf16 and to f32, written over and added") {
  Backend& be = backend();
  for (const auto& [M, N, K] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {3, 5, 7},
                                                                   {1, 40, 9},
                                                                   {33, 1, 65},
                                                                   {64, 48, 32},
                                                                   {67, 35, 129},
                                                                   {13, 100, 600},
                                                                   {0, 5, 3},
                                                                   {5, 0, 3},
                                                                   {5, 3, 0}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const bool add : {false, true}) {
          CAPTURE(M, N, K, ta, tb, add);
          const Pair a("a", ta ? Shape{K, M} : Shape{M, K}), b("b", tb ? Shape{N, K} : Shape{K, N});
          Pair c("c", {M, N});
          Tensor sum = be.clone(c.f32);
          be.matmul(a.f32, ta, b.f32, tb, c.f32, add);
          be.matmul(a.bf16, ta, b.bf16, tb, c.bf16, add);
          be.matmul(a.bf16, ta, b.bf16, tb, sum, add);
          CHECK(differs(wide(c.bf16), c.f32, kRounded) == "");
          CHECK(differs(sum, c.f32, kSame) == "");
        }
}

// 256 + 1 is 256 in bf16: a product summed there would stay at 256.
TEST_CASE("bf16: products are summed in f32") {
  Backend& be = backend();
  const Tensor ones = half(be.full({1, 1024}, 1));
  Tensor c = be.full({1, 1}, 0);
  be.matmul(ones, false, ones, true, c);
  CHECK(be.to_host(c)[0] == 1024);
  be.matmul(ones, false, ones, true, c, true);
  CHECK(be.to_host(c)[0] == 2048);
}

TEST_CASE("bf16: embedding") {
  Backend& be = backend();
  const Tensor ids = ints(random_ints("ids", 70, 0, 9), {7, 10});
  const Pair table("table", {5, 12}), dy("dy", {7, 10, 12});
  Outputs y({7, 10, 12});
  be.embedding(ids, table.f32, 2, y.f32), be.embedding(ids, table.bf16, 2, y.bf16);
  CHECK(differs(wide(y.bf16), y.f32) == "");
  Tensor dtable = random("dtable", {5, 12}), dtable32 = be.clone(dtable);
  be.embedding_backward(ids, dy.f32, 2, dtable32), be.embedding_backward(ids, dy.bf16, 2, dtable);
  CHECK(differs(dtable, dtable32, kSame) == "");
}

TEST_CASE("bf16: rms_norm") {
  Backend& be = backend();
  for (const Shape& shape : kShapes) {
    CAPTURE(show(shape));
    const int64_t E = shape.back(), N = E ? numel(shape) / E : shape[0];
    const Pair x("x", shape, 2), weight("weight", {E}), dy("dy", shape);
    Outputs y(shape), dx(shape);
    Tensor rstd = be.empty({N}), rstd32 = be.empty({N}), dweight = random("dweight", {E}),
           dweight32 = be.clone(dweight);
    be.rms_norm(x.f32, weight.f32, 0.01f, y.f32, rstd32), be.rms_norm(x.bf16, weight.bf16, 0.01f, y.bf16, rstd);
    CHECK(y.differ() == "");
    if (E) CHECK(differs(rstd, rstd32, kSame) == "");
    be.rms_norm_backward(dy.f32, x.f32, weight.f32, rstd, dx.f32, dweight32);
    be.rms_norm_backward(dy.bf16, x.bf16, weight.bf16, rstd, dx.bf16, dweight);
    CHECK(dx.differ() == "");
    CHECK(differs(dweight, dweight32, kSame) == "");
  }
}

TEST_CASE("bf16: gelu and silu_mul") {
  Backend& be = backend();
  for (const Shape& shape : kShapes) {
    CAPTURE(show(shape));
    const Pair x("x", shape, 5), up("up", shape), dy("dy", shape);
    Outputs y(shape), dx(shape), dup(shape);
    for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
      be.gelu(x.f32, kind, y.f32), be.gelu(x.bf16, kind, y.bf16);
      CHECK(y.differ() == "");
      be.gelu_backward(dy.f32, x.f32, kind, dx.f32), be.gelu_backward(dy.bf16, x.bf16, kind, dx.bf16);
      CHECK(dx.differ() == "");
    }
    be.silu_mul(x.f32, up.f32, y.f32), be.silu_mul(x.bf16, up.bf16, y.bf16);
    CHECK(y.differ() == "");
    be.silu_mul_backward(dy.f32, x.f32, up.f32, dx.f32, dup.f32);
    be.silu_mul_backward(dy.bf16, x.bf16, up.bf16, dx.bf16, dup.bf16);
    CHECK(dx.differ() == "");
    CHECK(dup.differ() == "");
  }
}

TEST_CASE("bf16: rope, with tables in f32") {
  Backend& be = backend();
  const Tensor cos = random("cos", {9, 5}), sin = random("sin", {9, 5}), positions = ints({0, 3, 8}, {3});
  for (const bool backward : {false, true}) {
    Pair x("x", {2, 3, 4, 10});
    be.rope(x.f32, cos, sin, positions, backward), be.rope(x.bf16, cos, sin, positions, backward);
    CHECK(differs(wide(x.bf16), x.f32, kRounded) == "");
  }
}

TEST_CASE("bf16: attention, with groups, hidden keys, fewer queries than keys, long rows, no heads") {
  Backend& be = backend();
  struct Size {
    int64_t B, S, T, H, K, D;
    bool hides;
  };
  for (const auto& [B, S, T, H, K, D, hides] : std::vector<Size>{{2, 7, 7, 4, 2, 6, true},
                                                                 {1, 3, 9, 6, 3, 5, false},
                                                                 {1, 130, 130, 2, 1, 16, true},
                                                                 {2, 70, 70, 2, 2, 8, false},
                                                                 {1, 4, 4, 0, 0, 6, false},
                                                                 {2, 0, 3, 2, 1, 4, false}}) {
    CAPTURE(B, S, T, H, K, D, hides);
    const Pair q("q", {B, S, H, D}, 3), k("k", {B, T, K, D}), v("v", {B, T, K, D}), dy("dy", {B, S, H, D});
    const Tensor mask = ints(random_ints("mask", B * T, 0, 2), {B, T});
    const Tensor* attend = hides ? &mask : nullptr;
    Outputs y({B, S, H, D}), dq({B, S, H, D}), dk({B, T, K, D}), dv({B, T, K, D});
    Tensor lse = be.empty({B, H, S}), lse32 = be.empty({B, H, S});
    be.attention(q.f32, k.f32, v.f32, attend, y.f32, lse32), be.attention(q.bf16, k.bf16, v.bf16, attend, y.bf16, lse);
    CHECK(y.differ() == "");
    CHECK(differs(lse, lse32, kSame) == "");
    be.attention_backward(dy.f32, q.f32, k.f32, v.f32, attend, wide(y.bf16), lse, dq.f32, dk.f32, dv.f32);
    be.attention_backward(dy.bf16, q.bf16, k.bf16, v.bf16, attend, y.bf16, lse, dq.bf16, dk.bf16, dv.bf16);
    CHECK(dq.differ() == "");
    CHECK(dk.differ() == "");
    CHECK(dv.differ() == "");
  }
}

TEST_CASE("bf16: cross-entropy, whose statistics are f32") {
  Backend& be = backend();
  const int64_t N = 9;
  const Tensor targets = ints({0, 3, -100, 5, 12, 7, 1, 2, 6}, {N});
  for (const int64_t R : {10, 0, 515}) {
    CAPTURE(R);
    Pair logits("logits", {N, R}, 20);
    Tensor max = be.empty({N}), sum = be.empty({N}), picked = be.empty({N}), max32 = be.empty({N}),
           sum32 = be.empty({N}), picked32 = be.empty({N});
    be.row_max(logits.f32, max32), be.row_max(logits.bf16, max);
    CHECK(differs(max, max32) == "");
    be.row_sum_exp(logits.f32, max, sum32), be.row_sum_exp(logits.bf16, max, sum);
    CHECK(differs(sum, sum32, kSame) == "");
    be.pick(logits.f32, targets, 2, picked32), be.pick(logits.bf16, targets, 2, picked);
    CHECK(differs(picked, picked32) == "");
    be.cross_entropy_backward(logits.f32, max, sum, targets, 2, -100, 0.3f);
    be.cross_entropy_backward(logits.bf16, max, sum, targets, 2, -100, 0.3f);
    CHECK(differs(wide(logits.bf16), logits.f32, kRounded) == "");
  }
}

// Of a token that the model is sure of, p - 1 is small: rounded before the difference it would be 0 or a hundredfold.
TEST_CASE("bf16: cross_entropy_backward rounds p - 1, not p") {
  Backend& be = backend();
  Tensor logits = half(be.from_host(std::vector<float>{10, 0, 0, 0}, {1, 4}));
  const Tensor max = be.full({1}, 10), sum = be.full({1}, 1 + 3 * std::exp(-10.0f));
  be.cross_entropy_backward(logits, max, sum, ints({0}, {1}), 0, -100, 1);
  CHECK(be.to_host(wide(logits))[0] == Approx(-3 * std::exp(-10.0)).epsilon(0.005));
}

TEST_CASE("bf16: two types in one call are refused with their names") {
  Backend& be = backend();
  Tensor a = be.zeros({2, 2}), h = half(a), rstd = be.zeros({2}), half_rstd = half(rstd);
  const Tensor w = be.zeros({2});
  CHECK_THROWS_WITH(be.add(h, a), Catch::Contains("f32 to a bf16 sum"));
  CHECK_THROWS_WITH(be.matmul(a, false, h, false, a), Catch::Contains("f32 and bf16"));
  CHECK_THROWS_WITH(be.matmul(a, false, a, false, h), Catch::Contains("c is bf16, a and b are f32"));
  CHECK_THROWS_WITH(be.rms_norm(h, w, 0, h, rstd), Catch::Contains("rms_norm: bf16 and f32 in one call"));
  CHECK_THROWS_WITH(be.rms_norm(h, half(w), 0, h, half_rstd), Catch::Contains("rstd is bf16 and should be f32"));
  CHECK_THROWS_WITH(be.sum_rows(h, half_rstd), Catch::Contains("dbias is bf16"));
  CHECK_THROWS_WITH(be.silu_mul(a, h, a), Catch::Contains("in one call"));
  CHECK_THROWS_WITH(be.row_max(h, half_rstd), Catch::Contains("max is bf16"));
}
