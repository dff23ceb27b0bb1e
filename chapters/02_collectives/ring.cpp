#include "chapters/02_collectives/ring.hpp"

#include "common/chunk.hpp"

namespace course {

void exchange(Comm& comm, const Tensor& mine, int to, Tensor& theirs, int from) {
  Work arriving = comm.recv(theirs, from);
  Work leaving = comm.send(mine, to);
  arriving.wait();
  leaving.wait();
}

void ring_all_reduce(Backend& backend, Comm& comm, Tensor& x) {
  const int P = comm.size(), r = comm.rank();
  if (P == 1) return;
  const int right = (r + 1) % P, left = (r + P - 1) % P;
  const auto at = [P](int i) { return (i % P + P) % P; };

  const Shape shape = x.shape();
  Tensor flat = std::move(x).reshape({numel(shape)});
  std::vector<Tensor> pieces;
  for (int i = 0; i < P; ++i) {
    const Chunk piece = chunk(flat.numel(), P, i);
    pieces.push_back(backend.slice(flat, 0, piece.offset, piece.size));
  }

  for (int step = 0; step < P - 1; ++step) {  // reduce-scatter
    Tensor& mine = pieces[at(r - step - 1)];
    Tensor arrived = backend.empty(mine.shape());
    exchange(comm, pieces[at(r - step)], right, arrived, left);
    backend.add(mine, arrived);
  }
  for (int step = 0; step < P - 1; ++step)  // all-gather
    exchange(comm, pieces[at(r + 1 - step)], right, pieces[at(r - step)], left);

  for (int i = 0; i < P; ++i) {
    const Chunk piece = chunk(flat.numel(), P, i);
    backend.copy_slice(pieces[i], 0, flat, piece.offset, 0, piece.size);
  }
  x = std::move(flat).reshape(shape);
}

int64_t ring_all_reduce_bytes(int64_t n, int ranks, int rank) {
  if (ranks == 1) return 0;
  const auto size = [&](int i) { return chunk(n, ranks, i % ranks).size; };
  return 4 * (2 * n - size(rank + 1) - size(rank + 2));
}

}  // namespace course
