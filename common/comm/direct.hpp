// A Comm that hands a device's memory to an MPI library which reads and writes it itself (CUDA-aware MPI). Where the library does
// not say that it can, Staged does the same by way of the host.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/decorator.hpp"

namespace course {

// What the MPI library says; false where it has no way to say it. Never assumed: a library that cannot crashes.
bool mpi_takes_gpu_memory();

class Direct : public CommDecorator {
 public:
  // `backend` owns the device and outlives this. MPI knows of no streams: a call waits on the host until all kernels before it
  // are done, and the next kernel starts after Work::wait().
  Direct(std::unique_ptr<Comm> inner, Backend& backend);

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override;
  Work start(const Call& call) override;

 private:
  Backend& backend_;
};

}  // namespace course
