// An NCCL Comm over all ranks, beside the one that the tests' world may be: unchecked, and with a time limit of its own.
#pragma once

#include <mpi.h>

#include <iostream>
#include <memory>

#include "common/comm/mpi_comm.hpp"
#include "common/comm/nccl_comm.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/thrown.hpp"

namespace course::test {

// NCCL is in this build, and each rank has a GPU of its own. Where not, a line says so, and ctest counts the program as skipped.
inline bool nccl_can_run() {
  const int gpus = cuda_devices(), ranks = world().size();
  if (has_nccl() && gpus >= ranks) return true;
  if (world().rank() == 0)
    std::cout << (has_nccl() ? cat("NCCL cannot run: ", gpus, " GPUs for ", ranks, " ranks\n")
                             : "NCCL cannot run: no NCCL in this build\n");
  return false;
}

// Warm: an all-reduce and a kernel have run. The first of either may hold the host, a collective until all ranks come, and
// loading a kernel until the device is through with what it has.
struct NcclWorld {
  NcclWorld() {
    Tensor x = backend().full({1}, 1);
    comm->all_reduce(x).wait();
    backend().scale(x, 2);
    backend().to_host(x);
  }
  std::shared_ptr<double> timeout = std::make_shared<double>(40);  // of `comm`
  std::unique_ptr<Comm> host = make_mpi_comm(MPI_COMM_WORLD, "nccl world", std::make_shared<double>(40));
  std::unique_ptr<Comm> comm = make_nccl_comm(*host, backend(), timeout);
};

}  // namespace course::test
