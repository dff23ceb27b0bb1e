// Runs Catch2 on every rank, the collectives checked unless COURSE_UNCHECKED is set. The verdict is all-reduced; a rank
// other than 0 prints only if it fails; a watchdog ends a hang.
#define CATCH_CONFIG_RUNNER
#include "tests/support/catch.hpp"

#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "common/support/session.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {
Session* session = nullptr;
}
Comm& world() { return session->world(); }
Backend& backend() { return session->backend(); }
}  // namespace course::test

int main(int argc, char** argv) {
  course::Session session(argc, argv);
  session.set_up({.timeout = 40, .check_collectives = !std::getenv("COURSE_UNCHECKED")});
  course::test::session = &session;

  std::thread([rank = session.rank()] {
    std::this_thread::sleep_for(std::chrono::seconds(300));
    std::cerr << "rank " << rank << ": the tests hang; ended by the watchdog after 300 s" << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }).detach();

  std::ostringstream quiet;
  std::streambuf* shown = std::cout.rdbuf();
  if (session.rank() != 0) std::cout.rdbuf(quiet.rdbuf());
  int failed = Catch::Session().run(argc, argv);
  std::cout.rdbuf(shown);
  if (session.rank() != 0 && failed) std::cout << "rank " << session.rank() << ":\n" << quiet.str() << std::endl;
  return session.world().max(failed ? 1 : 0) > 0;
}
