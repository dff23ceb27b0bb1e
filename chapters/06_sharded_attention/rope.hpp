// Rotary position embedding: element i of a head turns with element i + D/2 by the angle position · theta^(-2i/D), the
// half-split form that Hugging Face's Llama weights are made for. Su et al., arXiv:2104.09864
#pragma once

#include <vector>

#include "common/backend/backend.hpp"

namespace course {

// The cosines and sines of all positions, [P, D/2] each, computed in double: a float angle at position 1000 is off by
// 6e-5.
struct RopeTable {
  RopeTable(Backend& backend, int64_t positions, int64_t head_dim, double theta = 10000);
  int64_t positions;
  Tensor cos, sin;
};

// Other weights turn element 2i with element 2i+1 (Su et al.'s own form, Meta's files, "rope_interleave" in a
// config.json). The same model has its rows of q and k in another order then, head by head; nothing else differs.
// half_split_rows(H, D)[r]: which row of an interleaved weight [H·D,E] is row r here. D = 8: 0 2 4 6 1 3 5 7.
// interleaved_rows is its inverse. q has H heads, k has K: an order for the wrong number mixes heads.
std::vector<int64_t> half_split_rows(int64_t heads, int64_t head_dim);
std::vector<int64_t> interleaved_rows(int64_t heads, int64_t head_dim);

}  // namespace course
