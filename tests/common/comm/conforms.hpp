// What every Comm must do. A new transport or decorator is tested the day it links:
//
//   TEST_CASE("nccl conforms") { test::conforms(*make_nccl_comm(...)); }
//
// Every rank of the group calls. Inputs come from a generator keyed by rank, so each rank works out what all of them
// hold and checks the result alone; it CHECKs, so that a rank that is wrong stays in step with the others.
#pragma once

#include "common/comm/comm.hpp"

namespace course::test {

void conforms(Comm& comm);

// More of one that brings calls into order (checked.hpp): calls of two groups, each rank waits for them in an order of its own.
void takes_two_groups_in_any_order(Comm& comm, int rounds);

}  // namespace course::test
