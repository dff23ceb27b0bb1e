#include "museum/03_small_parameters/small_parameters.hpp"

#include "common/chunk.hpp"

namespace course {
namespace {

Tensor descend(Backend& backend, Comm& comm, const Tensor& weight, const Tensor& gradient, float lr) {
  // exercise small_parameters {
  const int64_t n = weight.dim(0);
  const Counts counts = chunk_sizes(n, comm.size());
  const Chunk mine = chunk(n, comm.size(), comm.rank());
  Tensor sum = backend.empty({mine.size});
  comm.reduce_scatter(gradient, sum, counts).wait();
  Tensor piece = backend.slice(weight, 0, mine.offset, mine.size);
  backend.scale(sum, -lr);
  backend.add(piece, sum);
  Tensor updated = backend.empty({n});
  comm.all_gather(piece, updated, counts).wait();
  return updated;
  // } exercise
}

}  // namespace

std::vector<Tensor> descend(Backend& backend, Comm& comm, const std::vector<Tensor>& weights,
                            const std::vector<Tensor>& gradients, float lr) {
  std::vector<Tensor> updated;
  for (size_t i = 0; i < weights.size(); ++i) updated.push_back(descend(backend, comm, weights[i], gradients[i], lr));
  return updated;
}

}  // namespace course

// Exhibit 03 small_parameters
// Task: Each rank keeps a piece of every parameter. With large parameters all is well. A model with a bias of one
// number, or one of 6 numbers on 4 ranks, never ends its first step.
// Hint: ./course check museum/3: which parameter is each rank at? Count the calls: two a parameter.
// Hint: how are 6 numbers cut over 4 ranks? 1 over 2? chunk_sizes says it.
// Hint: a rank that has no numbers of its own: which calls must it still make?
// Why: An empty piece is a piece. The rank that holds it has nothing to compute, but the all-gather counts on it,
// with 0 elements, and it wants the joined weight like everyone. In Hugging Face Transformers it was the other way round:
// ranks with an empty shard made a call more than the others.
// Fault empty_left_out: A rank whose piece is empty returns before the all-gather, and is a parameter ahead of the
// rest.
//   - comm.reduce_scatter(gradient, sum, counts).wait();
//   + comm.reduce_scatter(gradient, sum, counts).wait();
//   + if (mine.size == 0) return backend.clone(weight);  // none of it is ours to move
// Seen 2: the parameter of one number.
//   | rank 0: last call 5 reduce-scatter of 4 bytes on world, pending call 6 all-gather of 4 bytes on world
//   | rank 1: last call 5 reduce-scatter of 4 bytes on world, pending call 6 reduce-scatter of 52 bytes on world
// Seen 4: the parameter of 6 numbers, cut 2, 2, 2, 0.
//   | rank 0: last call 1 reduce-scatter of 24 bytes on world, pending call 2 all-gather of 24 bytes on world
//   | rank 3: last call 1 reduce-scatter of 24 bytes on world, pending call 2 reduce-scatter of 20 bytes on world
// Wrong old_weight_kept: A rank without a piece comes to the all-gather now, but then returns the weight as it was.
// What it has gathered is the new one.
//   - return updated;
//   + return mine.size == 0 ? backend.clone(weight) : std::move(updated);
