// An NCCL Comm over all ranks, beside the one that the tests' world may be: unchecked, and with a time limit of its own.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "common/comm/mpi_comm.hpp"
#include "common/comm/nccl_comm.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

// NCCL is in this build, and each rank has a GPU of its own.
inline bool nccl_can_run() {
  return has_nccl() && cuda_devices() >= world().size();
}

struct NcclWorld {
  std::shared_ptr<double> timeout = std::make_shared<double>(40);  // of `comm`
  std::unique_ptr<Comm> host = make_mpi_comm(MPI_COMM_WORLD, "nccl world", std::make_shared<double>(40));
  std::unique_ptr<Comm> comm = make_nccl_comm(*host, backend(), timeout);
};

// What `act` throws; "" where it does not.
inline std::string words_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace course::test
