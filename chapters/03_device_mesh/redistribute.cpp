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
}

Tensor replicate_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& to) {
  const Chunk own = chunk(whole.at(to.dim), comm.size(), comm.rank(), to.block);
  return backend.slice(local, to.dim, own.offset, own.size);
}

Tensor partial_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& to) {
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
}

Tensor partial_to_replicate(Backend& backend, Comm& comm, const Tensor& local) {
  Tensor sum = backend.clone(local);
  comm.all_reduce(sum).wait();
  return sum;
}

// I hold my piece of dim i, whole in dim j. Rank r gets its piece of dim j of that, and gives me mine of its piece of
// dim i.
Tensor shard_to_shard(Backend& backend, Comm& comm, const Tensor& local, const Shape& whole, const Shard& from,
                      const Shard& to) {
  const Cut out(local.shape(), to);
  Tensor send = message(backend, local.shape(), local.dtype());
  pack(backend, comm, out, local, send);

  const Shape mine = part_of(whole, to, comm);
  const Cut in(mine, from);
  Tensor pieces = message(backend, mine, local.dtype()), result = backend.empty(mine, local.dtype());
  comm.all_to_all(send, out.counts(comm), pieces, in.counts(comm)).wait();
  unpack(backend, comm, in, pieces, result);
  return result;
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
