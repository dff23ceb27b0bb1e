// Which samples each data-parallel rank reads: PyTorch's DistributedSampler.
//
//   12 samples, 3 ranks, in order:   rank 0: 0 3 6 9    rank 1: 1 4 7 10    rank 2: 2 5 8 11
//
// The ranks of one tensor-parallel group read the same: the sampler knows the dp axis only.
#pragma once

#include <cstdint>
#include <vector>

#include "chapters/09_llama/trainer.hpp"

namespace course {

struct DistributedSampler {
  int64_t samples, ranks, rank;
  bool shuffle = false;
  int64_t seed = 0;
  // Where the samples do not divide: off, the order goes on from its start until every rank has as many (some are read twice);
  // on, what is left over is dropped.
  bool drop_last = false;

  // This rank's samples in this epoch. Shuffled, the order of all samples depends on seed + epoch alone, on every rank alike.
  // (The order itself is this course's, by its own counter-based generator; PyTorch's needs PyTorch's.)
  std::vector<int64_t> order(int64_t epoch = 0) const;
};

// Of a global batch's samples every dp-th, as DistributedSampler deals them; sums go over dp. The last samples of a short batch
// may leave some ranks without: none is read twice, none dropped. `dp` is a 1-D mesh.
DataShare share_over(const DeviceMesh& dp);

}  // namespace course
