#include <new>

#include "common/support/session.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

// What together() throws when `part` runs on every rank; "" where it throws nothing.
std::string outcome(const std::function<void()>& part) {
  std::string said;
  try {
    together(world(), part);
  } catch (const SharedError& error) {
    said = error.what();
    if (said.empty()) said = "(no words)";
  } catch (const std::exception& error) {
    said = cat("not shared: ", error.what());
  }
  CHECK(world().sum(1) == world().size());  // all are still in step
  return said;
}

std::string from(int rank, const std::string& words) {
  return world().size() > 1 ? cat("rank ", rank, ": ", words) : words;
}

}  // namespace

TEST_CASE("together: where no rank fails, all go on") {
  int runs = 0;
  CHECK(outcome([&] { ++runs; }) == "");
  CHECK(runs == 1);
}

TEST_CASE("together: one rank fails, all throw its words") {
  for (int bad = 0; bad < world().size(); ++bad)
    CHECK(outcome([&] { require(world().rank() != bad, "data/", bad, ".bin is missing"); }) ==
          from(bad, cat("data/", bad, ".bin is missing")));
}

TEST_CASE("together: of several that fail, the lowest is heard") {
  const int lowest = (world().size() - 1) / 2;
  CHECK(outcome([&] { require(world().rank() < lowest, "wrong on ", world().rank()); }) ==
        from(lowest, cat("wrong on ", lowest)));
}

TEST_CASE("together: every kind of exception is shared") {
  const int last = world().size() - 1;
  CHECK(outcome([&] {
          if (world().rank() == last) throw std::bad_alloc();
        }) == from(last, "out of memory"));
  CHECK(outcome([&] {
          if (world().rank() == last) throw std::runtime_error("");
        }) == from(last, "failed"));
  CHECK(outcome([&] {
          if (world().rank() == last) throw SharedError("seen by one");
        }) == from(last, "seen by one"));
}

TEST_CASE("together: what all say alike is said without a rank, and a usage error stays one") {
  CHECK(outcome([] { fail("no such folder"); }) == "no such folder");
  CHECK_THROWS_AS(together(world(), [] { throw UsageError("--batch 3"); }), UsageError);
  CHECK_THROWS_AS(together(world(),
                           [] {
                             if (world().rank() == 0) throw UsageError("--batch 3");
                           }),
                  UsageError);
}

}  // namespace course::test
