// Many gradients, one all-reduce.
#pragma once

#include <memory>

#include "chapters/04_sharded_linear/parameter.hpp"
#include "common/comm/in_flight.hpp"

namespace course {

// The owned gradients of these parameters, to be summed over the 1-D mesh `axis`: packed one behind the other, all-reduced,
// unpacked. Nothing is sent for no parameters or one rank. Both halves are collective over the axis.
class PackedSum {
 public:
  PackedSum(Parameters parameters, DeviceMesh axis) : parameters_(std::move(parameters)), axis_(std::move(axis)) {}
  void start(InFlight& in_flight);  // packs what the gradients are now
  bool started() const { return work_ != nullptr; }
  void finish();  // waits, and puts the sums in their place; nothing where nothing was started

 private:
  Parameters parameters_;
  DeviceMesh axis_;
  Tensor packed_;
  std::shared_ptr<Work> work_;
};

// Both halves at once.
void sum_packed_gradients(const Parameters& parameters, const DeviceMesh& axis);

}  // namespace course
