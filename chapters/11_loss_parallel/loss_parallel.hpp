// Loss parallelism: cross-entropy on logits that stay cut by vocabulary. Never gathered, they cost V/P numbers a token on each
// rank instead of V, and three all-reduces of one number a token forward, none backward.
//
//   rank 0 holds columns 0…V/P-1 of the logits, rank 1 the next, ...        for each token:
//   1  each rank's largest logit            → all-reduce, maximum           m
//   2  each rank's Σ exp(logit - m)         → all-reduce, sum               s
//   3  the target's logit, 0 if elsewhere   → all-reduce, sum               t      loss = log s + m - t
//   gradient of my columns: exp(logit - m)/s - [this column is the target], all of it here already
//
// Shoeybi et al., arXiv:1909.08053, section 3; torch.distributed.tensor.parallel.loss_parallel.
#pragma once

#include "chapters/09_llama/loss.hpp"

namespace course {

class LossParallel : public Loss {
 public:
  using Loss::Loss;
  // Logits with a layout on a 1-D mesh, Shard on the vocabulary (the last dim); targets whole on every rank. Collective over
  // that mesh. Throws SharedError for other logits.
  double forward(DTensor logits, const Tensor& targets) override;
  DTensor backward(double divisor) override;

 private:
  int64_t begin_ = 0;  // this rank's first column
};

}  // namespace course
