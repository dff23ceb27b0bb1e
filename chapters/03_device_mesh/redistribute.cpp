#include "chapters/03_device_mesh/redistribute.hpp"

#include "common/chunk.hpp"

namespace course {
namespace {

// Pieces as they travel: a message's room, not a result.
Tensor message(Backend& backend, const Shape& shape, DType type) {
  const MemoryScope scope(MemoryClass::Buffers);
  return backend.empty(shape, type);
}

// The whole as `outer` runs of n·inner elements, where n is the dim that is cut.
struct Cut {
  int64_t outer, n, inner, block;
  Cut(const Shape& whole, const Shard& shard)
      : outer(numel(Shape(whole.begin(), whole.begin() + shard.dim))),
        n(whole.at(shard.dim)),
        inner(numel(Shape(whole.begin() + shard.dim + 1, whole.end()))),
        block(shard.block) {}
  Chunk piece(const Comm& comm, int r) const { return chunk(n, comm.size(), r, block); }
  Counts counts(const Comm& comm) const { return chunk_sizes(n, comm.size(), block, outer * inner); }
};

// The shape of this rank's part.
Shape part_of(Shape whole, const Placement& placement, const Comm& comm) {
  if (const Shard* s = as_shard(placement))
    whole.at(s->dim) = chunk(whole.at(s->dim), comm.size(), comm.rank(), s->block).size;
  return whole;
}

// Row-major pieces laid one after the other, in rank order, to and from the whole that they are cut of.
void pack(Backend& backend, const Comm& comm, const Cut& cut, const Tensor& whole, Tensor& pieces) {
  for (int r = 0; r < comm.size(); ++r) {
    const Chunk piece = cut.piece(comm, r);
    backend.copy_blocks(whole, piece.offset * cut.inner, cut.n * cut.inner, pieces,
                        cut.outer * piece.offset * cut.inner, piece.size * cut.inner, cut.outer,
                        piece.size * cut.inner);
  }
}

void unpack(Backend& backend, const Comm& comm, const Cut& cut, const Tensor& pieces, Tensor& whole) {
  for (int r = 0; r < comm.size(); ++r) {
    const Chunk piece = cut.piece(comm, r);
    backend.copy_blocks(pieces, cut.outer * piece.offset * cut.inner, piece.size * cut.inner, whole,
                        piece.offset * cut.inner, cut.n * cut.inner, cut.outer, piece.size * cut.inner);
  }
}

Tensor shard_to_replicate(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& from) {
  // exercise redistribute {
  const Cut cut(whole, from);
  Tensor gathered = backend.empty(whole, local.dtype());
  if (cut.outer == 1) {  // the pieces lie in their places already
    comm.all_gather(local, gathered, cut.counts(comm)).wait();
    return gathered;
  }
  Tensor pieces = message(backend, whole, local.dtype());
  comm.all_gather(local, pieces, cut.counts(comm)).wait();
  unpack(backend, comm, cut, pieces, gathered);
  return gathered;
  // } exercise
}

Tensor replicate_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& to) {
  // exercise redistribute {
  const Chunk own = chunk(whole.at(to.dim), comm.size(), comm.rank(), to.block);
  return backend.slice(local, to.dim, own.offset, own.size);
  // } exercise
}

Tensor partial_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& to) {
  // exercise redistribute {
  const Cut cut(whole, to);
  Tensor shard = backend.empty(part_of(whole, to, comm), local.dtype());
  if (cut.outer == 1) {
    comm.reduce_scatter(local, shard, cut.counts(comm)).wait();
    return shard;
  }
  Tensor pieces = message(backend, whole, local.dtype());
  pack(backend, comm, cut, local, pieces);
  comm.reduce_scatter(pieces, shard, cut.counts(comm)).wait();
  return shard;
  // } exercise
}

Tensor partial_to_replicate(Backend& backend, Comm& comm, const Tensor& local) {
  // exercise redistribute {
  Tensor sum = backend.clone(local);
  comm.all_reduce(sum).wait();
  return sum;
  // } exercise
}

// I hold my piece of dim i, whole in dim j. Rank r gets its piece of dim j of that, and gives me mine of its piece of
// dim i.
Tensor shard_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& from,
                      const Shard& to) {
  // exercise redistribute {
  const Cut out(local.shape(), to);
  Tensor send = message(backend, local.shape(), local.dtype());
  pack(backend, comm, out, local, send);

  const Shape mine = part_of(whole, to, comm);
  const Cut in(mine, from);
  Tensor pieces = message(backend, mine, local.dtype()), result = backend.empty(mine, local.dtype());
  comm.all_to_all(send, out.counts(comm), pieces, in.counts(comm)).wait();
  unpack(backend, comm, in, pieces, result);
  return result;
  // } exercise
}

}  // namespace

void require_possible(const Placement& from, const Placement& to) {
  require_shared(from == to || !is_partial(to), "cannot redistribute ", show(from), " to ", show(to),
                 ": nothing is made Partial on purpose");
}

Tensor redistribute(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Placement& given_from,
                    const Placement& given_to) {
  const Placement from = from_front(given_from, std::ssize(whole)), to = from_front(given_to, std::ssize(whole));
  require_possible(from, to);
  const Shape part = part_of(whole, from, comm);
  require(local.shape() == part, "redistribute on ", comm.name(), ": the part of ", show(whole), " as ", show(from),
          " has shape ", show(part), " here, not ", show(local.shape()));
  if (from == to || comm.size() == 1) return backend.clone(local);
  const Shard *source = as_shard(from), *target = as_shard(to);
  if (is_partial(from))
    return target ? partial_to_shard(backend, comm, local, whole, *target) : partial_to_replicate(backend, comm, local);
  if (is_replicate(from)) return replicate_to_shard(backend, comm, local, whole, *target);
  if (!target) return shard_to_replicate(backend, comm, local, whole, *source);
  if (source->dim != target->dim) return shard_to_shard(backend, comm, local, whole, *source, *target);
  // Another block on the same dim: through the whole.
  return replicate_to_shard(backend, comm, shard_to_replicate(backend, comm, local, whole, *source), whole, *target);
}

}  // namespace course

// Exercise 03 redistribute
// Task: Write the five rows of the redistribute table, each a function from this rank's part under one placement to its
// part under another. `local` is what this rank holds, `whole` the shape of all ranks' parts together. pack() and
// unpack() bring a row-major tensor into pieces that lie one behind the other, by rank, as collectives take and leave
// them; Cut says how large they are. Send no more than the table in redistribute.hpp says.
// Hint: what a collective delivers lies piece after piece. Along dim 0 the pieces are in place already; along any other
// dim they must be unpacked.
// Hint: a Partial is a term of a sum. On the way to a Shard each rank needs the sum of its own piece alone:
// reduce_scatter.
// Hint: from S(i) to S(j), cut what you hold along j, send each rank its piece, and lay what arrives together along i.
// Why: A placement says what the parts mean, and the two placements together leave no choice: who holds pieces and
// wants all, gathers; who holds terms and wants a piece, reduces and scatters. Memory order is the rest: ranks cut any
// dim, messages only the first.
// Wrong not_unpacked: The pieces stay as they arrived, one behind the other. Cut along another dim than 0, they must be
// laid side by side, row by row.
//   - Tensor pieces = message(backend, whole, local.dtype());
//   - comm.all_gather(local, pieces, cut.counts(comm)).wait();
//   - unpack(backend, comm, cut, pieces, gathered);
//   + comm.all_gather(local, gathered, cut.counts(comm)).wait();
// Wrong not_packed: What is scattered are runs of the row-major tensor, and not this rank's piece of each row. Pack it
// first.
//   - pack(backend, comm, cut, local, pieces);
//   - comm.reduce_scatter(pieces, shard, cut.counts(comm)).wait();
//   + comm.reduce_scatter(local, shard, cut.counts(comm)).wait();
// Wrong mean: The sum is divided by the number of ranks. A Partial is a term: the value is the sum of them.
//   - comm.all_reduce(sum).wait();
//   + comm.all_reduce(sum).wait();
//   + backend.scale(sum, 1.0f / static_cast<float>(comm.size()));
// Wrong own_term: This rank's term is taken for the sum. A Partial is whole only when all ranks' terms are added.
//   - comm.all_reduce(sum).wait();
// Wrong first_rank: Every rank cuts out the piece of rank 0. Its own begins where the pieces before it end.
//   - return backend.slice(local, to.dim, own.offset, own.size);
//   + return backend.slice(local, to.dim, 0, own.size);
// Wrong reduces_all: Right, and it sends twice what it must: the all-reduce gives every rank all sums, of which it
// keeps one piece.
//   - comm.reduce_scatter(pieces, shard, cut.counts(comm)).wait();
//   - return shard;
//   + pieces = backend.clone(local);
//   + comm.all_reduce(pieces).wait();
//   + return replicate_to_shard(backend, comm, pieces, whole, to);
// Wrong gathers_all: Right, and it gathers everything: each rank gets all of the tensor to keep a P-th. An all-to-all
// sends each rank only what it will hold.
//   - const Cut out(local.shape(), to);
//   + if (comm.size() > 1) return replicate_to_shard(backend, comm, shard_to_replicate(backend, comm, local, whole, from), whole, to);
//   + const Cut out(local.shape(), to);
