// The styles of sequence parallelism: what lies between the sharded matmuls works on a slice of the sequence.
// Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv:2205.05198. Names and
// defaults are PyTorch's: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html
#pragma once

#include "chapters/04_sharded_linear/parallel_style.hpp"

namespace course {

// For a module that works row by row (RmsNorm). Its input is taken as, or redistributed to, Shard(sequence_dim); so is
// its output, which keeps its layout unless use_local_output. The weight is replicated, its gradient Partial: each rank
// saw its rows only, and finish_gradients (chapter 10) sums it once a step. A plain input is taken to be an even slice;
// give uneven ones as a DTensor with its global shape.
class SequenceParallel : public ParallelStyle {
 public:
  explicit SequenceParallel(int64_t sequence_dim = 1) : dim_(sequence_dim) {}
  SequenceParallel& use_local_output(bool yes) { return use_local_output_ = yes, *this; }
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  int64_t dim_;
  bool use_local_output_ = false;
};

// Redistributes a module's input on its way in, and its gradient on its way out. A parent that is styled so makes the
// layout once for all children that share the input; their Partial gradients are added by the module's body and reduced
// here, once.
class PrepareModuleInput : public ParallelStyle {
 public:
  PrepareModuleInput(Placement input, Placement desired) : input_(input), desired_(desired) {}
  PrepareModuleInput& use_local_output(bool yes) {
    return use_local_output_ = yes, *this;
  }  // off: the body gets the layout
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  Placement input_, desired_;
  bool use_local_output_ = false;
};

// The same for a module's output.
class PrepareModuleOutput : public ParallelStyle {
 public:
  PrepareModuleOutput(Placement output, Placement desired) : output_(output), desired_(desired) {}
  PrepareModuleOutput& use_local_output(bool yes) { return use_local_output_ = yes, *this; }
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  Placement output_, desired_;
  bool use_local_output_ = true;
};

// Both.
class PrepareModuleInputOutput : public ParallelStyle {
 public:
  PrepareModuleInputOutput(Placement input, Placement desired_input, Placement output, Placement desired_output)
      : input_(input), desired_input_(desired_input), output_(output), desired_output_(desired_output) {}
  PrepareModuleInputOutput& use_local_input(bool yes) { return use_local_input_ = yes, *this; }
  PrepareModuleInputOutput& use_local_output(bool yes) { return use_local_output_ = yes, *this; }
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  Placement input_, desired_input_, output_, desired_output_;
  bool use_local_input_ = false, use_local_output_ = true;
};

}  // namespace course
