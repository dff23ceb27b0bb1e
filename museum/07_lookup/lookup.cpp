#include "museum/07_lookup/lookup.hpp"

#include "common/chunk.hpp"

namespace course {

Tensor look_up(Backend& backend, Comm& comm, const Tensor& table, int64_t V, const Tensor& ids) {
  // exercise lookup {
  if (const auto bad = backend.first_outside(ids, V))
    throw SharedError(cat("id ", backend.to_host<int32_t>(ids)[*bad], " is not one of 0..", V - 1));
  const Chunk mine = chunk(V, comm.size(), comm.rank());
  Tensor rows = backend.empty({ids.dim(0), table.dim(1)});
  backend.embedding(ids, table, mine.offset, rows);  // zeros where an id is of another rank
  comm.all_reduce(rows).wait();
  return rows;
  // } exercise
}

}  // namespace course

// Exhibit 07 lookup
// Task: A vocabulary is cut over the ranks, and each looks up the ids that it has. One text came from another
// tokenizer, with larger ids. The training ran on, without a word, and learned nothing from those tokens.
// Hint: ./course check museum/7: which vector does an id get that is past the end of the vocabulary?
// Hint: what does a rank give for an id of another rank? How would it tell that from an id of none?
// Hint: every rank sees all ids and knows V. Backend::first_outside finds a bad one; throw a SharedError.
// Why: A rank that leaves to the others what it does not have must know that someone has it. No rank sees that from
// its own piece: the ids are checked against the whole before they are dealt.
// Fault in_no_piece: An id of no rank looks, to each, like one of another rank. All give zeros, and their sum is a
// vector.
//   - if (const auto bad = backend.first_outside(ids, V))
//   - throw SharedError(cat("id ", backend.to_host<int32_t>(ids)[*bad], " is not one of 0..", V - 1));
// Seen 1: id 8 of 0 to 7.
//   | ids -1, 8 and 2147483647 of 0..7
// Seen 2: the same.
//   | ids -1, 8 and 2147483647 of 0..7
//   |   rank 0: yours [0,0], right refused
// Wrong ends_at_the_type: Ids below 0 are refused, and none that is too large. The end is V, not that of the type.
//   - if (const auto bad = backend.first_outside(ids, V))
//   + if (const auto bad = backend.first_outside(ids, 2147483647))
