// Every row of the redistribute table: the values, and what is sent.
#include "chapters/03_device_mesh/redistribute.hpp"
#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

namespace {

// Rank r's part of a whole that all know. Under Partial its own term: the terms of the ranks add up to the whole.
Tensor part(Check& check, const Tensor& whole, const Placement& placement, int r) {
  Backend& backend = check.backend();
  if (const Shard* s = as_shard(placement)) {
    const Chunk piece = chunk(whole.dim(s->dim), check.size(), r, s->block);
    return backend.slice(whole, s->dim, piece.offset, piece.size);
  }
  if (is_replicate(placement) || check.size() == 1) return backend.clone(whole);
  Tensor rest = backend.clone(whole);
  for (int other = 0; other < check.size(); ++other) {
    Tensor term = check.random(cat("term of ", other, show(whole.shape())), whole.shape());
    if (other == r && r > 0) return term;
    backend.scale(term, -1);
    if (other > 0) backend.add(rest, term);
  }
  return rest;
}

// At the ring volume of a tensor of n bytes.
std::map<Op, Sent> cost(Check& check, const Placement& from, const Placement& to, double n) {
  const int P = check.size();
  if (is_partial(from)) {
    const Op op = as_shard(to) ? Op::ReduceScatter : Op::AllReduce;
    return {{op, {1, ring_bytes(op, n, P)}}};
  }
  if (is_replicate(from)) return {};
  if (is_replicate(to)) return {{Op::AllGather, {1, ring_bytes(Op::AllGather, n, P)}}};
  return {{Op::AllToAll, {1, check.bytes(Op::AllToAll)}}};  // who sends how much depends on the cuts: one call is asked for
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "redistribute", [](Check& check) {
    const Placement R = Replicate(), P = Partial(), S0 = Shard(0), S1 = Shard(1), S2 = Shard(2);
    const std::pair<Placement, Placement> rows[] = {{S0, R},  {S1, R},  {S2, R},  {R, S0},  {R, S1},  {R, S2},  {P, R},
                                                    {P, S0},  {P, S1},  {P, S2},  {S0, S1}, {S1, S0}, {S1, S2}, {S2, S0}};
    for (int round = 0; round < 2; ++round) {
      const Shape shape = {check.random(cat("M", round), 2, 5), check.random(cat("N", round), 3, 7), check.random(cat("O", round), 2, 6)};
      const Tensor whole = check.random(cat("whole", round), shape);
      for (const auto& [from, to] : rows) {
        check.begin(cat(show(from), " to ", show(to), " of ", show(shape)));
        const Tensor mine = part(check, whole, from, check.rank());
        check.equal("redistribute", redistribute(check.backend(), check.world(), mine, shape, from, to),
                    part(check, whole, to, check.rank()));
        check.sent(cost(check, from, to, 4.0 * static_cast<double>(numel(shape))));
      }
    }
  });
}
