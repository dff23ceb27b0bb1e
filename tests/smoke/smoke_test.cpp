// The bare launch: without it, "0 of 1" on every rank would pass every other test.
#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

TEST_CASE("the launcher and the library are of one family: there are as many ranks as were asked for") {
  const char* asked = std::getenv("COURSE_RANKS");
  REQUIRE(asked);
  CHECK(course::test::world().size() == std::atoi(asked));
  CHECK(course::test::world().sum(1) == std::atoi(asked));
}
