// Data parallelism the plain way: every rank holds the whole model, reads other samples, and the gradients are summed.
// Li et al., "PyTorch Distributed", arXiv:2006.15704.
#pragma once

#include <vector>

#include "chapters/04_sharded_linear/module.hpp"
#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

// Sums all gradients over dp, packed in buckets of about `bucket_bytes` in the parameters' reverse order (the order in which
// backward finishes them), one all-reduce a bucket: 2(P-1)/P of the parameters' bytes a step. Summed, not averaged: the loss is
// already divided by the tokens of the global batch.
class Ddp {
 public:
  Ddp(const Parameters& parameters, DeviceMesh dp, int64_t bucket_bytes = 25 << 20);
  Ddp(const Ddp&) = delete;

  // From now on a bucket's all-reduce starts as soon as the last backward of a step has reached all its parameters, while the
  // layers before them still compute. A step has `micro_batches` backwards. Adds hooks to the model's modules, so this must
  // outlive the model's last backward.
  void reduce_during_backward(Module& model, int64_t micro_batches, InFlight& in_flight);

  // Once a step, after backward: starts what has not started, then waits for all. Collective over dp.
  void reduce_gradients();
  int64_t buckets() const { return static_cast<int64_t>(buckets_.size()); }
  std::vector<int64_t> bucket_bytes() const;  // in the order in which backward fills them

 private:
  struct Bucket {
    Parameters parameters;
    PackedSum sum;
    int64_t missing = 0;  // backwards until all its gradients are there
  };
  void arrived(Bucket& bucket);
  void expect_all();

  std::vector<Bucket> buckets_;
  int64_t micro_batches_ = 0;  // 0: nothing starts during backward
  InFlight none_, *in_flight_ = &none_;
};

}  // namespace course
