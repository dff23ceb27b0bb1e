// Many gradients, one all-reduce.
#pragma once

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// Sums the owned gradients of these parameters over the 1-D mesh `axis`: packed one behind the other, all-reduced, unpacked.
// Nothing is sent for no parameters or one rank. Collective over the axis.
void sum_packed_gradients(const Parameters& parameters, const DeviceMesh& axis);

}  // namespace course
