#include <cmath>

#include "tests/common/backend/twin.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("rope: forward as its twin, backward turns back") {
  Backend& be = backend();
  struct Case {
    int64_t B, S, H, D, P;
  };
  for (const auto& [B, S, H, D, P] : {Case{2, 3, 5, 6, 7}, Case{3, 70, 4, 34, 100}, Case{1, 1, 1, 2, 1},
                                      Case{2, 0, 3, 4, 5}, Case{2, 3, 0, 4, 5}, Case{2, 3, 4, 0, 5}}) {
    CAPTURE(B, S, H, D, P);
    const Tensor angle = random("angle", {P, D / 2}, 3);
    const std::vector<float> angles = be.to_host(angle);
    const Tensor cos = make({P, D / 2}, [&](int64_t i) { return std::cos(angles[i]); });
    const Tensor sin = make({P, D / 2}, [&](int64_t i) { return std::sin(angles[i]); });
    const Ints positions = random_ints("positions", S, 0, P);
    const Tensor place = ints(positions, {S}), before = random("x", {B, S, H, D});
    Tensor x = be.clone(before);
    be.rope(x, cos, sin, place, false);
    if (D) CHECK(far(x, twin::rope(values_of(before), values_of(cos), values_of(sin), positions, S, H, D)) == "");
    be.rope(x, cos, sin, place, true);
    CHECK(differs(x, before, 1e-6) == "");
  }
}

TEST_CASE("B22: one vector by hand, half-split") {
  Backend& be = backend();
  const auto B22 = the_case("B22");
  Tensor x = be.from_host(floats_of(B22["input"]["x"]), {1, 1, 1, 4});
  const Tensor cos = be.from_host(std::vector<float>{1, 1, std::cos(1.0f), std::cos(0.01f)}, {2, 2});
  const Tensor sin = be.from_host(std::vector<float>{0, 0, std::sin(1.0f), std::sin(0.01f)}, {2, 2});
  be.rope(x, cos, sin, ints({1}, {1}), false);
  CHECK(far(x, B22["right"]["half_split"].get<Values>()) == "");
}

TEST_CASE("rope: a position past the table is refused with both numbers") {
  Backend& be = backend();
  const Tensor table = be.zeros({16, 2});
  Tensor x = be.zeros({1, 2, 1, 4});
  const auto turn = [&](const Ints& positions) {
    be.rope(x, table, table, ints(positions, {2}), false);
    be.to_host(x);  // a GPU says it here
  };
  CHECK_THROWS_WITH(turn({3, 16}), Catch::Contains("position 16") && Catch::Contains("table of 16"));
  CHECK_THROWS_WITH(turn({-1, 3}), Catch::Contains("position -1"));
  CHECK_NOTHROW(turn({3, 15}));
}
