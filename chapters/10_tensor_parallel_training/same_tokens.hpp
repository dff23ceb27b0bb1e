// The ranks of a tensor-parallel group make one result together, each a part of it: what they read must be the same.
#pragma once

#include <cstdint>
#include <functional>

#include "chapters/03_device_mesh/device_mesh.hpp"

namespace course {

// For DataShare::compare: 8 bytes a rank of the 1-D mesh `tp`, once a step. Throws Error on every rank of a group whose
// ranks read different tokens, with the ranks that differ from the group's first; without it the group would go on, and
// train on a sum of unlike parts.
std::function<void(uint64_t tokens)> same_tokens(const DeviceMesh& tp);

}  // namespace course
