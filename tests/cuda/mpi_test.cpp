// A GPU's memory goes to MPI by way of Staged, and not by mistake.
#include "common/comm/mpi_comm.hpp"
#include "common/comm/staged.hpp"
#include "tests/common/comm/conforms.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("MPI is given no memory of a GPU, and Staged takes it there") {
  const int P = world().size(), r = world().rank();
  auto comm = make_mpi_comm(MPI_COMM_WORLD, "plain", std::make_shared<double>(40));
  Tensor x = make({5}, [&](int64_t i) { return static_cast<float>(i + 10 * r); });
  CHECK_THROWS_WITH((void)comm->all_reduce(x), Catch::Contains("GPU's memory"));
  Staged staged(std::move(comm), backend());
  staged.all_reduce(x).wait();
  const float ranks = static_cast<float>(P), offsets = static_cast<float>(10 * P * (P - 1) / 2);
  for (int i = 0; i < 5; ++i) CHECK(backend().to_host(x)[i] == ranks * static_cast<float>(i) + offsets);
  Tensor y = make({3}, [&](int64_t i) { return static_cast<float>(i + 10 * r); });
  staged.broadcast(y, P - 1).wait();
  for (int i = 0; i < 3; ++i) CHECK(backend().to_host(y)[i] == static_cast<float>(i + 10 * (P - 1)));
}

TEST_CASE("staging by way of the host conforms") {
  Staged staged(make_mpi_comm(MPI_COMM_WORLD, "staged", std::make_shared<double>(40)), backend());
  conforms(staged);
}
