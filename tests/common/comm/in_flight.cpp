#include "common/comm/in_flight.hpp"

#include "tests/support/catch.hpp"

using namespace course;

namespace {

// Complete at the poll of this number, which it counts down.
Work after_polls(int& polls) {
  return Work([&polls] { return --polls <= 0; });
}

}  // namespace

TEST_CASE("a work is polled until it is complete, then no more") {
  InFlight in_flight;
  int polls = 3;
  const auto work = in_flight.add(after_polls(polls));
  for (int i = 0; i < 5; ++i) in_flight.poll();
  CHECK(polls == 0);
}

TEST_CASE("who lets go of a work waits for it, and it is polled no more") {
  InFlight in_flight;
  int polls = 3;
  in_flight.add(after_polls(polls)).reset();
  CHECK(polls == 0);
  in_flight.poll();
  CHECK(polls == 0);
}

TEST_CASE("without polls nothing piles up") {
  InFlight in_flight;
  for (int i = 0; i < 100; ++i) {
    int polls = 1;
    in_flight.add(after_polls(polls))->wait();
  }
  CHECK(in_flight.size() <= 1);
}
