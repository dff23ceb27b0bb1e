// The redistribute table as data, its formula, and its proof: each row is run, compared with one rank's values, and
// counted.
#pragma once

#include "chapters/03_device_mesh/dtensor.hpp"
#include "common/comm/recorder.hpp"
#include "common/support/session.hpp"

namespace course {

using Path = std::vector<Placements>;  // the layouts on a way, of which each step changes one axis

// A row: a tensor's way, and its gradient's way back.
struct Transition {
  Path forward, backward;
};

// Every row, for a tensor [M,N] with N even, on a mesh of one axis or two.
std::vector<Transition> transitions(int64_t axes);

// What this rank sends on a way, by the formula: from the shape, the ranks and the size of an f32 alone.
struct Cost {
  std::string collectives;  // "all-gather"; with the axis where there are several; "own slice", "nothing"
  Traffic sent;
};
Cost cost_of(const DeviceMesh& mesh, const Shape& shape, const Path& path);

// Runs all rows and returns them as a table. `traffic` is that of a Recorder under the mesh. Throws SharedError, naming
// row and rank, if any rank ends with other numbers than one rank alone would, or sent other than the formula says.
// Collective.
std::string run_transitions(Session& session, const DeviceMesh& mesh, Traffic& traffic, const Shape& shape);

}  // namespace course
