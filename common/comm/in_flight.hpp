// Calls that go on while this rank computes.
//
//   InFlight in_flight;
//   session.observed().observe([&](const Kernel&) { in_flight.poll(); });
//   const auto gather = in_flight.add(comm.all_gather(own, all, counts));
//   ... compute ...
//   gather->wait();
//
// MPICH moves the bytes of a started call only while this rank is inside some MPI call, so a rank that computes for long
// looks in now and then. On a GPU the communication stream moves by itself (nccl_comm.hpp), and polling only notices the end.
#pragma once

#include <memory>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

class InFlight {
 public:
  // Polls the work from now on, until it is complete or its last owner lets go of it.
  std::shared_ptr<Work> add(Work work);
  void poll();
  size_t size() const { return works_.size(); }  // works it still knows of

 private:
  std::vector<std::weak_ptr<Work>> works_;
};

}  // namespace course
