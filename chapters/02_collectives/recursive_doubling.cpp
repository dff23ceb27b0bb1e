#include "chapters/02_collectives/recursive_doubling.hpp"

#include <bit>

#include "chapters/02_collectives/ring.hpp"

namespace course {
namespace {

// The Q ranks that double, and the 2E from which half step aside.
struct Fold {
  int q, extra;
  explicit Fold(int ranks) : q(std::bit_floor(unsigned(ranks))), extra(ranks - q) {}
  bool folds(int rank) const { return rank < 2 * extra; }
  bool steps_aside(int rank) const { return folds(rank) && rank % 2 == 0; }
  int place(int rank) const { return folds(rank) ? rank / 2 : rank - extra; }  // of a rank that stays, in 0..Q-1
  int rank_at(int place) const { return place < extra ? 2 * place + 1 : place + extra; }
};

}  // namespace

void recursive_doubling_all_reduce(Backend& backend, Comm& comm, Tensor& x) {
  if (comm.size() == 1) return;
  const int r = comm.rank();
  const Fold fold(comm.size());
  if (fold.steps_aside(r)) {
    comm.send(x, r + 1).wait();
    comm.recv(x, r + 1).wait();
    return;
  }

  Tensor arrived = backend.empty(x.shape());
  if (fold.folds(r)) {
    comm.recv(arrived, r - 1).wait();
    backend.add(x, arrived);
  }
  for (int bit = 1; bit < fold.q; bit *= 2) {
    const int partner = fold.rank_at(fold.place(r) ^ bit);
    exchange(comm, x, partner, arrived, partner);
    backend.add(x, arrived);
  }
  if (fold.folds(r)) comm.send(x, r - 1).wait();
}

int recursive_doubling_sends(int ranks, int rank) {
  if (ranks == 1) return 0;
  const Fold fold(ranks);
  if (fold.steps_aside(rank)) return 1;
  return std::bit_width(unsigned(fold.q)) - 1 + (fold.folds(rank) ? 1 : 0);
}

}  // namespace course
