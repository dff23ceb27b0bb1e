// Each collective on a handful of numbers, drawn before and after.
#pragma once

#include "chapters/01_column_row_split/sent_table.hpp"
#include "common/comm/recorder.hpp"
#include "common/support/session.hpp"

namespace course {

// Number i that rank r starts with: rank 0 has 10, 11, 12, rank 1 20, 21, 22, so a number shows where it came from.
inline float number_of(int rank, int64_t i) { return static_cast<float>(10 * (rank + 1) + i); }

// This rank's n numbers.
Tensor own_numbers(Backend& backend, const Comm& comm, int64_t n);

// Prints on rank 0 a line a rank, what it held and what it holds. `moved`: numbers keep the colour of the rank they
// came from; sums have none. Every rank of the world calls.
void draw_before_after(Session& session, const std::string& title, const Tensor& before, const Tensor& after,
                       bool moved);

// broadcast, all-gather, reduce-scatter, all-reduce, all-to-all: draws each, checks it, and adds its row to the table.
// `comm` is around the session's world and counts into `traffic`. Throws SharedError if a rank ends with a wrong
// number.
void show_collectives(Session& session, Recorder& comm, Traffic& traffic, SentTable& sent);

}  // namespace course
