// Draws a mesh, and which rank holds what on it. A rank's number stands in its colour; plain where there are no
// colours.
#pragma once

#include "chapters/03_device_mesh/dtensor.hpp"
#include "common/support/session.hpp"

namespace course {

// The grid of a mesh of one or two axes, each rank where its coordinates say, and the groups that the ranks of each
// axis found themselves in. Every rank of the mesh, which is the whole world, calls.
void draw_mesh(Session& session, const DeviceMesh& mesh);

// A tensor [M,N] once for each of `layouts`, side by side: every number is drawn as the ranks that hold it.
// "0,2": both hold it. "0+2": each holds a term of it. Every rank of the mesh calls.
void draw_holders(Session& session, const DeviceMesh& mesh, const Shape& shape, const std::vector<Placements>& layouts);

}  // namespace course
