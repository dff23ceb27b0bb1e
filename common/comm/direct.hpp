// A Comm that hands a device's memory to an MPI library which reads and writes it itself (CUDA-aware MPI).
#pragma once

#include "common/comm/staged.hpp"

namespace course {

// What the MPI library says; false where it has no way to say it. Never assumed: a library that cannot crashes. Open MPI's yes
// is not enough: its documentation leaves out the non-blocking collectives, and all calls here are.
bool mpi_takes_gpu_memory();

// What is left to staging: sums of bf16, which our own function adds on the host (mpi_comm.cpp), and groups of one.
class Direct : public Staged {
 public:
  using Staged::Staged;  // MPI knows of no streams: the next kernel starts after Work::wait()

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override;
  Work start(const Call& call) override;  // waits until the kernels before it are done
};

}  // namespace course
