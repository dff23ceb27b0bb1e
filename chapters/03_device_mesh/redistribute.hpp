// One tensor, one mesh axis, from one placement to another: the table of chapter 03.
//
//   from       to         sends                        per rank, n bytes in the whole, P ranks
//   S(i)       R          all-gather                   (P-1)/P·n
//   R          S(i)       nothing: own slice           0
//   S(i)       S(j)       all-to-all                   about (P-1)/P²·n
//   P          R          all-reduce                   2(P-1)/P·n
//   P          S(i)       reduce-scatter               (P-1)/P·n
//   anything   P          refused                      -
//
// Backward runs the table the other way for the gradient, whose own placement says what it needs: a gradient that is
// still Partial is reduced on its way, a gradient that is already whole is not. The exception is a source that was
// Partial: its gradient is wanted whole on every rank, so it becomes R (see gradient_of).
#pragma once

#include "chapters/03_device_mesh/placement.hpp"
#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// Throws SharedError for R→P and S→P.
void require_possible(const Placement& from, const Placement& to);

// `local` is this rank's part under `from`; `whole` is the shape that the ranks of `comm` hold together. Returns
// the part under `to`; `local` is not changed. Any dtype moves; what is added must be one that MPI adds. Collective
// over comm. Throws SharedError for R→P, S→P, and Error where `local` has another shape than `from` says.
Tensor redistribute(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Placement& from,
                    const Placement& to);

}  // namespace course
