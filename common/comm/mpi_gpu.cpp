#include <mpi.h>

#include <string_view>

#include "common/comm/direct.hpp"

// MPICH from 4.0 on and Open MPI from 2.0 on have it, in headers of different names.
extern "C" int MPIX_Query_cuda_support(void);

namespace course {

bool mpi_takes_gpu_memory() {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(library, &length);
  return std::string_view(library, length).find("MPICH") != std::string_view::npos && MPIX_Query_cuda_support() == 1;
}

}  // namespace course
