// Data parallelism the plain way: every rank holds the whole model, reads other samples, and the gradients are summed.
// Li et al., "PyTorch Distributed", arXiv:2006.15704.
#pragma once

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// Sums all gradients over dp, packed in buckets of about `bucket_bytes` in the parameters' reverse order (the order in which
// backward finishes them), one all-reduce a bucket: 2(P-1)/P of the parameters' bytes a step. Summed, not averaged: the loss is
// already divided by the tokens of the global batch. Collective over dp, after backward.
class Ddp {
 public:
  Ddp(const Parameters& parameters, DeviceMesh dp, int64_t bucket_bytes = 25 << 20);
  void reduce_gradients();
  int64_t buckets() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  DeviceMesh dp_;
  std::vector<Parameters> buckets_;
};

}  // namespace course
