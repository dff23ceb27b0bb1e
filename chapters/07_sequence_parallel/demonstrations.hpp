// What the program of this chapter shows before the decoder layer.
#pragma once

#include "chapters/01_column_row_split/sent_table.hpp"
#include "chapters/03_device_mesh/device_mesh.hpp"
#include "common/support/session.hpp"

namespace course {

// Sums [B,S,E] over the ranks in one call and in two halves. Prints what lies on a rank in between and the largest
// difference, and adds both to the table. Throws SharedError when the two sums differ. Collective.
void show_halves(Session& session, const DeviceMesh& tp, Traffic& traffic, SentTable& sent, const Shape& shape);

// The positions that each rank holds, and who holds none.
void show_slices(Session& session, int64_t sequence, int64_t ranks);

// A norm over four positions of four features: the gradient of its weight that each rank has alone, their sum, their
// mean, and one rank's. Throws SharedError when the sum is not one rank's. Collective.
void show_norm_gradient(Session& session, const DeviceMesh& tp);

}  // namespace course
