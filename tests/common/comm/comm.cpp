#include "common/comm/comm.hpp"

#include "common/comm/recorder.hpp"
#include "tests/common/comm/conforms.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

TEST_CASE("the world conforms") { conforms(world()); }

TEST_CASE("a group that another order of ranks makes conforms") {
  conforms(*world().split(0, (world().rank() + 1) % world().size(), "turned"));
}

TEST_CASE("groups of one conform") { conforms(*world().split(world().rank(), 0, "alone")); }

TEST_CASE("a recorder conforms") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  conforms(recorder);
}

TEST_CASE("a barrier holds the others until the last has come") {
  Comm& comm = world();
  Tensor go = random("go", {1});
  for (int late = 0; late < comm.size(); ++late) {
    if (comm.rank() == late) {  // comes only when all others have said that they wait
      for (int r = 0; r < comm.size(); ++r)
        if (r != late) comm.recv(go, r).wait();
      comm.barrier().wait();
    } else {
      Work held = comm.barrier();
      bool passed = false;
      for (int poll = 0; poll < 200; ++poll) passed = passed || held.test();
      CHECK_FALSE(passed);
      comm.send(go, late).wait();
      held.wait();
    }
  }
}

}  // namespace course::test
