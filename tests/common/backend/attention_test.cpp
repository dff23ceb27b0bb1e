#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Case {
  twin::AttentionSizes z;
  bool padded;
};

// 1 where a key may be seen: runs of 0 at either end, as padding makes them, and some between.
Ints padding(const twin::AttentionSizes& z) {
  Ints attend = random_ints("attend", z.B * z.T, 0, 5);
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t j = 0; j < z.T; ++j) {
      int32_t& seen = attend[b * z.T + j];
      seen = seen > 0 && !(b % 2 == 0 && j < z.T / 4) && !(b % 2 == 1 && j > z.T - z.T / 5);
    }
  return attend;
}

struct Run {
  Tensor q, k, v, dy, y, lse, dq, dk, dv;
  Ints attend;
};

Run run(const twin::AttentionSizes& z, bool padded, float size = 1) {
  Backend& be = backend();
  const Shape query = {z.B, z.S, z.H, z.D}, key = {z.B, z.T, z.K, z.D};
  Run r = {random("q", query, size), random("k", key, size),
           random("v", key),         random("dy", query),
           random("y", query),       random("lse", {z.B, z.H, z.S}),
           random("dq", query),      random("dk", key),
           random("dv", key),        {}};
  Tensor mask;
  if (padded) {
    r.attend = padding(z);
    mask = ints(r.attend, {z.B, z.T});
  }
  be.attention(r.q, r.k, r.v, padded ? &mask : nullptr, r.y, r.lse);
  be.attention_backward(r.dy, r.q, r.k, r.v, padded ? &mask : nullptr, r.y, r.lse, r.dq, r.dk, r.dv);
  return r;
}

}  // namespace

TEST_CASE("attention: forward and backward as their twins") {
  //                                    B  S    T    H  K  D
  for (const auto& [z, padded] : {Case{{2, 5, 5, 3, 3, 4}, false},      // one tile
                                  Case{{1, 7, 7, 6, 2, 3}, false},      // grouped
                                  Case{{2, 3, 11, 4, 1, 5}, false},     // more keys than queries, one key/value head
                                  Case{{2, 1, 9, 4, 2, 8}, false},      // one query, as in decoding
                                  Case{{3, 70, 70, 2, 1, 16}, false},   // two tiles, the second short
                                  Case{{2, 131, 150, 4, 2, 7}, false},  // three tiles, a prefix
                                  Case{{3, 9, 9, 4, 2, 4}, true}, Case{{3, 140, 140, 4, 2, 6}, true},
                                  Case{{2, 66, 80, 2, 2, 32}, true}, Case{{1, 1, 1, 1, 1, 1}, false},
                                  // wider heads: a GPU cuts each otherwise
                                  Case{{2, 70, 133, 4, 2, 64}, true}, Case{{1, 67, 67, 2, 1, 50}, false},
                                  Case{{2, 1, 40, 4, 2, 64}, false}, Case{{1, 16, 33, 2, 1, 50}, true},  // few queries
                                  Case{{1, 9, 30, 2, 1, 128}, true}, Case{{2, 16, 16, 2, 1, 32}, false}, Case{{1, 17, 17, 2, 1, 32}, false},
                                  Case{{2, 65, 70, 2, 1, 128}, true}, Case{{1, 40, 40, 3, 1, 99}, false},
                                  Case{{2, 33, 50, 2, 1, 256}, true}, Case{{1, 20, 37, 4, 2, 130}, false}}) {
    CAPTURE(z.B, z.S, z.T, z.H, z.K, z.D, padded);
    const Run r = run(z, padded, 3);
    const Values q = values_of(r.q), k = values_of(r.k), v = values_of(r.v);
    const auto [y, lse] = twin::attention(q, k, v, r.attend, z);
    CHECK(far(r.y, y, 1e-5) == "");
    const Values got = values_of(r.lse);
    for (size_t i = 0; i < lse.size(); ++i)
      if (got[i] != lse[i]) CHECK(got[i] == Approx(lse[i]).epsilon(1e-5).margin(1e-5));
    const auto [dq, dk, dv] = twin::attention_backward(values_of(r.dy), q, k, v, r.attend, z);
    CHECK(far(r.dq, dq, 1e-5) == "");
    CHECK(far(r.dk, dk, 1e-5) == "");
    CHECK(far(r.dv, dv, 1e-5) == "");
  }
}

TEST_CASE("attention: backward against finite differences") {
  for (const bool padded : {false, true}) {
    const twin::AttentionSizes z = {2, 6, 8, 4, 2, 3};
    const Run r = run(z, padded);
    const Values q = values_of(r.q), k = values_of(r.k), v = values_of(r.v), dy = values_of(r.dy);
    auto loss = [&](const Values& a, const Values& b, const Values& c) {
      return dot(dy, twin::attention(a, b, c, r.attend, z).y);
    };
    CHECK(far(r.dq, slope([&](const Values& x) { return loss(x, k, v); }, q), 1e-5) == "");
    CHECK(far(r.dk, slope([&](const Values& x) { return loss(q, x, v); }, k), 1e-5) == "");
    CHECK(far(r.dv, slope([&](const Values& x) { return loss(q, k, x); }, v), 1e-5) == "");
  }
}

TEST_CASE("attention: a query that stands on a hidden key sees nothing: zeros, never nan") {
  Backend& be = backend();
  const Tensor attend = ints(Ints(2 * 5), {2, 5});
  const Tensor q = random("q", {2, 4, 2, 3}), k = random("k", {2, 5, 1, 3}), v = random("v", {2, 5, 1, 3});
  Tensor y = random("y", {2, 4, 2, 3}), lse = be.empty({2, 2, 4}), dq = random("dq", {2, 4, 2, 3}),
         dk = random("dk", {2, 5, 1, 3}), dv = random("dv", {2, 5, 1, 3});
  be.attention(q, k, v, &attend, y, lse);
  be.attention_backward(q, q, k, v, &attend, y, lse, dq, dk, dv);
  CHECK(far(y, Values(48), 0) == "");
  CHECK(far(lse, Values(16, -INFINITY), 0) == "");
  CHECK(far(dq, Values(48), 0) == "");
  CHECK(far(dk, Values(30), 0) == "");
  CHECK(far(dv, Values(30), 0) == "");
}

TEST_CASE("attention: large scores") {
  Backend& be = backend();
  const Tensor q = random("q", {1, 9, 1, 4}, 200), k = random("k", {1, 9, 1, 4}, 200), v = random("v", {1, 9, 1, 4});
  Tensor y = be.empty({1, 9, 1, 4}), lse = be.empty({1, 1, 9}), dq = be.empty({1, 9, 1, 4}),
         dk = be.empty({1, 9, 1, 4}), dv = be.empty({1, 9, 1, 4});
  be.attention(q, k, v, nullptr, y, lse);
  be.attention_backward(v, q, k, v, nullptr, y, lse, dq, dk, dv);
  for (const Tensor* x : {&y, &lse, &dq, &dk, &dv})
    for (double value : values_of(*x)) CHECK(std::isfinite(value));
  CHECK(values_of(y)[0] == values_of(v)[0]);
}

TEST_CASE("attention: a later key changes no earlier query") {
  Backend& be = backend();
  const Tensor q = random("q", {1, 80, 2, 4}), k = random("k", {1, 80, 1, 4}), v = random("v", {1, 80, 1, 4});
  auto change = [&](const Tensor& x) {
    std::vector<float> values = be.to_host(x);
    for (int64_t i = 71 * 4; i < 80 * 4; ++i) values[i] = 1e3f;
    return be.from_host(values, x.shape());
  };
  Tensor y = be.empty(q.shape()), other = be.empty(q.shape()), lse = be.empty({1, 2, 80});
  be.attention(q, k, v, nullptr, y, lse);
  be.attention(q, change(k), change(v), nullptr, other, lse);
  CHECK(differs(be.slice(other, 1, 0, 71), be.slice(y, 1, 0, 71)) == "");
  CHECK(differs(be.slice(other, 1, 71, 9), be.slice(y, 1, 71, 9)) != "");
}

TEST_CASE("attention: empty sizes") {
  for (const twin::AttentionSizes& z : {twin::AttentionSizes{0, 3, 3, 2, 1, 4},
                                        {2, 0, 3, 2, 1, 4},
                                        {2, 3, 3, 0, 0, 4},
                                        {2, 0, 0, 2, 1, 4},
                                        {2, 3, 3, 2, 1, 0},
                                        {2, 3, 3, 0, 2, 4}}) {
    CAPTURE(z.B, z.S, z.T, z.H, z.K, z.D);
    const Run r = run(z, false);
    CHECK(far(r.y, Values(r.y.numel()), 0) == "");
    CHECK(far(r.dk, Values(r.dk.numel()), 0) == "");
    CHECK(far(r.dv, Values(r.dv.numel()), 0) == "");
  }
}

TEST_CASE("attention: shapes that do not fit are refused with the shapes") {
  Backend& be = backend();
  Tensor y = be.zeros({1, 4, 3, 2}), lse = be.zeros({1, 3, 4});
  const Tensor q = be.zeros({1, 4, 3, 2});
  auto call = [&](const Shape& key) { be.attention(q, be.zeros(key), be.zeros(key), nullptr, y, lse); };
  CHECK_NOTHROW(call({1, 4, 3, 2}));
  CHECK_THROWS_WITH(call({1, 3, 3, 2}), Catch::Contains("4 queries") && Catch::Contains("3 keys"));
  CHECK_THROWS_WITH(call({1, 4, 2, 2}), Catch::Contains("3 heads over 2"));
  CHECK_THROWS_WITH(call({1, 4, 3, 5}), Catch::Contains("[1,4,3,5]"));
  CHECK_THROWS_AS(call({2, 4, 3, 2}), Error);
}
