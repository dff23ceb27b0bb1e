// Conjugate pairs: what a value does on its way forward, its gradient does the other way on its way back. Both
// directions of a pair stand on one line, so that a missing one shows. For those who wire by hand, on local tensors. f
// and g are Megatron-LM's: Shoeybi et al., arXiv:1909.08053, figure 3.
#pragma once

#include "chapters/03_device_mesh/redistribute.hpp"

namespace course {

struct ConjugatePair {
  const char* name;
  Placement from, to;            // forward: redistribute x from → to
  Placement grad_to, grad_from;  // backward: redistribute the gradient of the result, grad_to → grad_from

  // `whole` is the shape that the ranks hold together; for a Partial or a Replicate it is the local shape.
  Tensor forward(Backend& backend, Comm& comm, const Tensor& x, const Shape& whole) const {
    return redistribute(backend, comm, x, whole, from, to);
  }
  Tensor backward(Backend& backend, Comm& comm, const Tensor& dy, const Shape& whole) const {
    return redistribute(backend, comm, dy, whole, grad_to, grad_from);
  }
};

// clang-format off
//                                      forward                          backward
inline const ConjugatePair f       = {"f",       Replicate(), Replicate(), Partial(),   Replicate()};  // nothing | all-reduce
inline const ConjugatePair g       = {"g",       Partial(),   Replicate(), Replicate(), Replicate()};  // all-reduce | nothing
inline const ConjugatePair gather  = {"gather",  Shard(1),    Replicate(), Partial(),   Shard(1)};     // all-gather | reduce-scatter
inline const ConjugatePair scatter = {"scatter", Partial(),   Shard(1),    Shard(1),    Replicate()};  // reduce-scatter | all-gather
// clang-format on

}  // namespace course
