// Draws what the ranks hold, each in its colour.
#pragma once

#include <string>

#include "common/support/session.hpp"

namespace course {

enum class Pieces {
  Columns,  // side by side, with | in between
  Rows,     // one below the other
  Terms,    // side by side, with + in between: parts of a sum
};

// The numbers of x [M,N] as lines of equal width; its shape alone where it is larger than `most` either way.
std::vector<std::string> lines_of(const Backend& backend, const Tensor& x, int64_t most = 16);

// Prints on rank 0, under `title`, what every rank holds. Every rank of the world calls; the lines travel as texts,
// which the recorder counts as "host". An empty piece is drawn as "idle".
void draw(Session& session, const std::string& title, const Tensor& mine, Pieces pieces);

// Prints a tensor that all ranks hold alike. No rank needs to meet another for it.
void draw(Session& session, const std::string& title, const Tensor& whole);

}  // namespace course
