#include "common/comm/pieces.hpp"

#include <algorithm>
#include <memory>

namespace course {
namespace {

// Elements of x from `offset` on.
Elements part(const Elements& x, const Piece& piece) {
  return {static_cast<char*>(x.data) + piece.offset * size_of(x.type), piece.size, x.type, x.device};
}

Elements none(const Elements& x) { return part(x, {0, 0}); }

// Both sides hold the same elements: broadcast, all-reduce, send, receive.
std::vector<Call> whole_in_pieces(const Call& call, int64_t limit) {
  std::vector<Call> calls;
  for (const Piece& piece : pieces(call.in.count, limit)) {
    calls.push_back(call);
    calls.back().in = part(call.in, piece);
    calls.back().out = part(call.out, piece);
  }
  return calls;
}

}  // namespace

std::vector<Piece> pieces(int64_t n, int64_t limit) {
  require(n >= 0 && limit > 0, "cannot cut ", n, " elements in pieces of ", limit);
  std::vector<Piece> all;
  for (int64_t at = 0; at < n; at += all.back().size) all.push_back({at, std::min(limit, n - at)});
  return all;
}

bool needs_pieces(const Call& call, int64_t limit) {
  return call.op != Op::AllToAll && call.op != Op::Barrier && call.whole().count > limit;
}

std::vector<Call> in_pieces(const Call& call, int rank, int64_t limit) {
  if (!needs_pieces(call, limit)) return {call};
  const bool gather = call.op == Op::AllGather;
  if (!gather && call.op != Op::ReduceScatter) return whole_in_pieces(call, limit);
  std::vector<Call> calls;
  int64_t begin = 0;  // of rank r's part in the whole
  for (int r = 0; r < static_cast<int>(call.counts.size()); begin += call.counts[r++])
    for (const Piece& piece : pieces(call.counts[r], limit)) {
      const Elements of_whole = part(call.whole(), {begin + piece.offset, piece.size});
      const Elements& shard = gather ? call.in : call.out;
      const Elements of_shard = r == rank ? part(shard, piece) : none(shard);
      calls.push_back(call);
      calls.back().in = gather ? of_shard : of_whole;
      calls.back().out = gather ? of_whole : of_shard;
      calls.back().counts.assign(call.counts.size(), 0);
      calls.back().counts[r] = piece.size;
    }
  return calls;
}

Work all_of(std::vector<Work> works) {
  const auto shared = std::make_shared<std::vector<Work>>(std::move(works));
  // In order: one poll of MPI lets all of them advance.
  return Work([shared, done = size_t{0}](Until until) mutable {
    while (done < shared->size() && (*shared)[done].reached(until)) ++done;
    return done == shared->size();
  });
}

}  // namespace course
