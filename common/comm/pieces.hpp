// MPI counts elements in an int. A call of more goes as several, each within a limit; all arithmetic is in 64 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

struct Piece {
  int64_t offset, size;  // elements
  bool operator==(const Piece&) const = default;
};

// n elements from the front, `limit` at a time: 2501 by 1000 is 1000, 1000, 501. None for n = 0.
std::vector<Piece> pieces(int64_t n, int64_t limit);

// Whether the call's larger side, where its last displacement is too, goes beyond the limit: the same answer on every
// rank that takes part. Never for all-to-all, which knows only its own counts, and for a barrier.
bool needs_pieces(const Call& call, int64_t limit);

// The call of this rank as several, in the order in which every rank must start them. An all-gather and a
// reduce-scatter go rank by rank: in each piece one rank's part alone has elements, so there is no displacement.
std::vector<Call> in_pieces(const Call& call, int rank, int64_t limit);

// Complete when all are.
Work all_of(std::vector<Work> works);

}  // namespace course
