// Comm over MPI. Every collective starts non-blocking and is waited for by polling with a yield: MPICH's blocking calls spin,
// and with more ranks than cores a spinning rank keeps the core from the one it waits for.
#pragma once

#include <mpi.h>

#include <limits>
#include <memory>

#include "common/comm/comm.hpp"

namespace course {

// Throws Error with MPI's own words unless the code is MPI_SUCCESS.
void check(int mpi_code, const char* call, std::source_location at = std::source_location::current());

// A Comm around a duplicate of `group`. Collective over `group`. A wait longer than `timeout` seconds (0: no limit) throws
// with the name of the call, so that a hang ends and says where. A call of more than `limit` elements, 2^31-1 at the most, goes
// in pieces (pieces.hpp); an all-to-all of more is refused.
std::unique_ptr<Comm> make_mpi_comm(MPI_Comm group, const std::string& name, std::shared_ptr<const double> timeout,
                                    int64_t limit = std::numeric_limits<int>::max());

}  // namespace course
