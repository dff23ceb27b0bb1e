// A layer whose input and output are slices of one stream, beside its serial self: values, calls and bytes, and the
// memory that its forward leaves for its backward.
//
//   StreamComparison compare(tp, traffic, serial, {B, S, E});
//   const StreamRun run = compare.run(sharded, Shard(1));
//   run.forward.total().bytes
#pragma once

#include "chapters/04_sharded_linear/module.hpp"
#include "common/comm/recorder.hpp"

namespace course {

struct StreamRun {
  // The largest on any rank, of y, dx and each weight's gradient, in parts of the largest number in it. A gradient that
  // is nothing but rounding (of q and k where a token sees itself alone) counts in parts of 1/10 of the largest one.
  double difference;
  Traffic forward, backward;
  Traffic gradients;  // the sums of the gradients that backward left Partial, one call each
  int64_t kept;       // bytes that forward left alive on this rank for backward, the parameters aside
};

class StreamComparison {
 public:
  // Runs `serial` on x and dy [B,S,E], drawn alike on all ranks. `traffic` is what the mesh's recorder writes to, and
  // must outlive this, as the mesh must.
  StreamComparison(const DeviceMesh& tp, Traffic& traffic, Module& serial, const Shape& shape);

  // Forward and backward of the sharded module, from cleared gradients. `stream` is how x and dy are handed in: whole
  // as plain tensors, or a Shard as DTensors that know the global shape, so that slices may differ. Collective over tp.
  StreamRun run(Module& sharded, const Placement& stream);

 private:
  DeviceMesh tp_;
  Traffic* traffic_;
  Tensor x_, dy_, y_, dx_;
  double steepest_ = 0;            // the largest number in them
  std::vector<Tensor> gradients_;  // in the order of parameters_of()
};

}  // namespace course
