// The norm of all gradients of a model that lies in pieces.
#pragma once

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// Every rank adds the squares of what it owns, in double; a parameter that an axis replicates is counted by coordinate 0 of that
// axis alone, or it would count once a rank. Then one all-reduce of one number over `world`, the ranks of the mesh. The same
// number, and the same decision about it, on every rank. Collective over world.
double gradient_norm(const Parameters& parameters, const DeviceMesh& mesh, Comm& world);

}  // namespace course
