#include "common/support/stop_signal.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

namespace {

// SIGTERM as it was, whatever a StopSignal leaves.
struct Keep {
  Keep() { sigaction(SIGTERM, nullptr, &before); }
  ~Keep() { sigaction(SIGTERM, &before, nullptr); }
  struct sigaction before {};
};

}  // namespace

TEST_CASE("stop signal: none, then one") {
  const Keep keep;
  StopSignal stop;
  CHECK(stop.agreed(world()) == 0);
  raise(SIGTERM);
  CHECK(stop.agreed(world()) == SIGTERM);
}

// oneDNN computes with the stack pointer elsewhere, so a handler that ran on that stack would write over other memory.
TEST_CASE("stop signal: thousands of them inside matrix products harm nothing") {
  const Keep keep;
  StopSignal stop;
  std::atomic<bool> over = false;
  std::thread sender([&] {
    while (!over) {
      kill(getpid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  const Tensor a = random("a", {211, 190}), b = random("b", {190, 233});
  Tensor right = backend().empty({211, 233});
  backend().matmul(a, false, b, false, right);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    const Tensor again = backend().clone(b);  // memory comes and goes, as in a step
    Tensor c = backend().empty({211, 233});
    backend().matmul(a, false, again, false, c);
    wrong += differs(c, right) != "";
  }
  over = true;
  sender.join();
  CHECK(wrong == 0);
  CHECK(stop.agreed(world()) == SIGTERM);
}
