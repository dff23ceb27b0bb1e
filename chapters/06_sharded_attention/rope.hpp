// Rotary position embedding: element i of a head turns with element i + D/2 by the angle position · theta^(-2i/D), the
// half-split form that Hugging Face's Llama weights are made for. Su et al., arXiv:2104.09864
#pragma once

#include "common/backend/backend.hpp"

namespace course {

// The cosines and sines of all positions, [P, D/2] each, computed in double: a float angle at position 1000 is off by
// 6e-5.
struct RopeTable {
  RopeTable(Backend& backend, int64_t positions, int64_t head_dim, double theta = 10000);
  int64_t positions;
  Tensor cos, sin;
};

}  // namespace course
