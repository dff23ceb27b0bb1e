#include "museum/01_checkpoint/checkpoint.hpp"

#include "common/chunk.hpp"

namespace course {
namespace {

void save(Backend& backend, Comm& comm, const Tensor& weight, int64_t n, std::ostream& file) {
  // exercise checkpoint {
  Tensor whole = backend.empty({n});
  comm.all_gather(weight, whole, chunk_sizes(n, comm.size())).wait();
  if (comm.rank() != 0) return;
  for (const float x : backend.to_host(whole)) file << x << ' ';
  file << '\n';
  // } exercise
}

}  // namespace

double train(Backend& backend, Comm& comm, Tensor& weight, const Tensor& target, int64_t n, int64_t steps,
             std::ostream& file) {
  // exercise checkpoint {
  double left = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    Tensor way = backend.clone(weight);
    backend.scale(way, -1);
    backend.add(way, target);
    backend.scale(way, 0.5f);
    backend.add(weight, way);
    left = comm.sum(backend.squared_norm(way));
    if (step % 2 == 0) save(backend, comm, weight, n, file);
  }
  return left;
  // } exercise
}

}  // namespace course

// Exhibit 01 checkpoint
// Task: A training writes a checkpoint after every second step. On one rank it works. On more it stops at the first
// checkpoint: no error, no file, all ranks busy. Find out what each rank waits for.
// Hint: ./course check museum/1 shows the last and the pending call of every rank. Do they pend in the same
// function?
// Hint: which calls does rank 1 make between its second step and its third? Which does rank 0?
// Hint: writing the file is work of rank 0 alone. Is everything that save() does?
// Why: A collective is a call of all ranks of its group. What only one rank does, here the writing, comes after the
// calls that all of them make: every rank brings its piece, then all but rank 0 are done. Transformers' Trainer let only
// the rank that writes come to the save.
// Fault collective_on_one_rank: save() lets every rank but 0 go home, and the all-gather that follows wants them
// all.
//   - Tensor whole = backend.empty({n});
//   - comm.all_gather(weight, whole, chunk_sizes(n, comm.size())).wait();
//   - if (comm.rank() != 0) return;
//   + if (comm.rank() != 0) return;  // one file, one writer
//   + Tensor whole = backend.empty({n});
//   + comm.all_gather(weight, whole, chunk_sizes(n, comm.size())).wait();
// Seen 2: the ranks wait for each other.
//   | rank 0: last call 2 all-reduce of 8 bytes on world, pending call 3 all-gather of 28 bytes on world
//   | rank 1: last call 2 all-reduce of 8 bytes on world, pending call 3 all-reduce of 8 bytes on world
// Seen 4: ranks 1 to 3 are a step further than rank 0.
//   | rank 0: last call 2 all-reduce of 8 bytes on world, pending call 3 all-gather of 28 bytes on world
//   | rank 3: last call 2 all-reduce of 8 bytes on world, pending call 3 all-reduce of 8 bytes on world
// Wrong all_ranks_write: Now every rank writes the file. They gather together, and one of them writes.
//   - if (comm.rank() != 0) return;
