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

  // exercise ring {
  for (int step = 0; step < P - 1; ++step) {  // reduce-scatter
    Tensor& mine = pieces[at(r - step - 1)];
    Tensor arrived = backend.empty(mine.shape());
    exchange(comm, pieces[at(r - step)], right, arrived, left);
    backend.add(mine, arrived);
  }
  for (int step = 0; step < P - 1; ++step)  // all-gather
    exchange(comm, pieces[at(r + 1 - step)], right, pieces[at(r - step)], left);
  // } exercise

  for (int i = 0; i < P; ++i) {
    const Chunk piece = chunk(flat.numel(), P, i);
    backend.copy_slice(pieces[i], 0, flat, piece.offset, 0, piece.size);
  }
  x = std::move(flat).reshape(shape);
}

int64_t ring_all_reduce_bytes(int64_t n, int ranks, int rank) {
  // exercise ring {
  if (ranks == 1) return 0;
  const auto size = [&](int i) { return chunk(n, ranks, i % ranks).size; };
  return 4 * (2 * n - size(rank + 1) - size(rank + 2));
  // } exercise
}

}  // namespace course

// Exercise 02 ring
// Task: Write the two phases of the ring: pieces[i] holds this rank's piece i before, and the sum over all ranks of
// piece i after. exchange() sends to the right and receives from the left; at() brings an index back into 0..P-1. Then
// write ring_all_reduce_bytes, what rank r really sends for n elements of 4 bytes, pieces of unequal size included.
// Hint: a rank begins by sending a piece of its own. What should it send next, so that a sum travels on?
// Hint: draw three ranks, and write beside each which piece it sends in step 0 and in step 1.
// Hint: in step s of the first phase send piece r - s, and add what arrives to piece r - s - 1. After P - 1 steps piece
// r + 1 is finished.
// Hint: in step s of the second phase send piece r + 1 - s, the one that was finished or arrived last. It is not added.
// Hint: in each phase a rank sends all pieces but one. Which one is it?
// Why: Every piece goes round the circle twice: once to collect the terms, once to be handed out. A rank sends P - 1
// pieces of n / P each time, so 2(P - 1)/P of the data, however many ranks there are.
// Wrong one_step_short: The first phase ends one step early, so each sum lacks a rank's term. P pieces need P - 1
// steps.
//   - for (int step = 0; step < P - 1; ++step) {  // reduce-scatter
//   + for (int step = 0; step < P - 2; ++step) {
// Wrong adds_twice: What arrives in the second phase is added. It is finished already: it takes the place of what was
// there.
//   - exchange(comm, pieces[at(r + 1 - step)], right, pieces[at(r - step)], left);
//   + {
//   +   Tensor arrived = backend.empty(pieces[at(r - step)].shape());
//   +   exchange(comm, pieces[at(r + 1 - step)], right, arrived, left);
//   +   backend.add(pieces[at(r - step)], arrived);
//   + }
// Wrong wrong_way: Receives come from the right neighbour, who sends to its own right: nobody sends what this rank
// waits for. Data goes one way round the circle: to the right, from the left.
//   - exchange(comm, pieces[at(r - step)], right, arrived, left);
//   + exchange(comm, pieces[at(r - step)], right, arrived, right);
// Wrong sends_own_again: Each step of the first phase sends the piece r, and not the one that was added to last. The
// sums do not travel on.
//   - exchange(comm, pieces[at(r - step)], right, arrived, left);
//   + exchange(comm, pieces[at(r)], right, arrived, left);
// Wrong whole_ring: The bytes are those of 2P steps. A phase has P - 1: the piece that arrives last in it is not sent on.
//   - return 4 * (2 * n - size(rank + 1) - size(rank + 2));
//   + return size(0) >= 0 ? 4 * 2 * n : 0;
// Wrong equal_pieces: The bytes are 2(P - 1)/P of 4n, which holds on the mean over the ranks. Where P does not divide
// n, a rank whose two unsent pieces are short sends more.
//   - return 4 * (2 * n - size(rank + 1) - size(rank + 2));
//   + return size(0) >= 0 ? 8 * (ranks - 1) * n / ranks : 0;
