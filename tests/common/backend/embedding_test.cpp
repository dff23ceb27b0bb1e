#include "tests/common/backend/twin.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("embedding: a shard of the vocabulary, forward and backward") {
  Backend& be = backend();
  struct Case {
    int64_t N, V, begin, R, E;
  };
  for (const auto& [N, V, begin, R, E] : {Case{9, 12, 0, 12, 5}, Case{40, 12, 4, 5, 65}, Case{300, 3, 1, 2, 130},
                                          Case{7, 12, 12, 0, 3}, Case{0, 5, 0, 5, 4}, Case{1, 5, 0, 5, 1}}) {
    CAPTURE(N, V, begin, R, E);
    const Ints ids = random_ints("ids", N, 0, V);
    const Tensor i = ints(ids, {N}), table = random("table", {R, E}), dy = random("dy", {N, E});
    Tensor y = random("y", {N, E}), dtable = random("dtable", {R, E});
    Values out(N * E), slopes = values_of(dtable);  // backward adds
    const Values t = values_of(table), d = values_of(dy);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t e = 0; e < E; ++e)
        if (ids[n] >= begin && ids[n] < begin + R) {
          out[n * E + e] = t[(ids[n] - begin) * E + e];
          slopes[(ids[n] - begin) * E + e] += d[n * E + e];
        }
    be.embedding(i, table, begin, y);
    CHECK(far(y, out, 0) == "");
    be.embedding_backward(i, dy, begin, dtable);
    CHECK(far(dtable, slopes, 1e-5) == "");
  }
}

TEST_CASE("embedding: the first id outside is found") {
  Backend& be = backend();
  CHECK(!be.first_outside(ints({0, 4, 2}, {3}), 5));
  CHECK(be.first_outside(ints({0, 5, -1}, {3}), 5) == 1);
  CHECK(be.first_outside(ints({0, 4, 4, -1}, {2, 2}), 5) == 3);
  CHECK(!be.first_outside(ints({}, {0}), 0));
}
