#include "common/comm/direct.hpp"

// MPICH from 4.0 on and Open MPI from 2.0 on have it, in headers of different names.
extern "C" int MPIX_Query_cuda_support(void);

namespace course {

bool mpi_takes_gpu_memory() { return MPIX_Query_cuda_support() == 1; }

}  // namespace course
