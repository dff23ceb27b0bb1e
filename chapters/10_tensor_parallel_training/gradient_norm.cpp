#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"

#include <cmath>

#include "chapters/09_llama/clip.hpp"

namespace course {

double gradient_norm(const Parameters& parameters, const DeviceMesh& mesh, Comm& world) {
  // exercise gradient_norm {
  Parameters mine;
  for (Parameter* p : parameters)
    if (p->speaks_for(mesh)) mine.push_back(p);
  return std::sqrt(world.sum(squared_norm(mine)));
  // } exercise
}

}  // namespace course

// Exercise 13 gradient_norm
// Task: The norm of all gradients of a model that lies in pieces on a mesh of several axes. The same number on every
// rank, with one all-reduce of one number over all ranks (world.sum). Gradients are final: what had to be summed has
// been.
// Hint: a parameter that an axis replicates is on every rank of that axis. It counts once: Parameter::speaks_for(mesh).
// Hint: squares add up over parameters and over ranks; the root comes last.
// Why: Pieces of a cut parameter are different numbers, and their squares add up over the ranks. Copies are the same
// numbers, and only one of them may count. That is all a norm on any mesh needs to know.
// Wrong copies_counted: A parameter that an axis replicates counts once for each of its copies, so the norm is too
// large.
//   - if (p->speaks_for(mesh)) mine.push_back(p);
//   + mine.push_back(p);
// Wrong own_pieces: Each rank has the norm of its own pieces, so each would clip by another factor. Add over the ranks.
//   - return std::sqrt(world.sum(squared_norm(mine)));
//   + return std::sqrt(squared_norm(mine));
// Wrong adds_norms: The ranks' norms are added. Squares add up; the root is of the sum.
//   - return std::sqrt(world.sum(squared_norm(mine)));
//   + return world.sum(std::sqrt(squared_norm(mine)));
// Wrong mean: The squares are averaged over the ranks. They are of different pieces, so they add up.
//   - return std::sqrt(world.sum(squared_norm(mine)));
//   + return std::sqrt(world.sum(squared_norm(mine)) / world.size());
// Wrong one_axis: The squares are added along the first axis of the mesh alone. The pieces lie on all ranks: sum over
// the world.
//   - return std::sqrt(world.sum(squared_norm(mine)));
//   + return std::sqrt((mesh.dims() > 1 ? mesh[mesh.name(0)].comm() : world).sum(squared_norm(mine)));
