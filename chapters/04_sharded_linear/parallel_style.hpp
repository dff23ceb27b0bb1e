// Styles that cut one module over the ranks of a tensor-parallel axis, as hooks around it. The module is not changed.
// Names, defaults and layouts are PyTorch's: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html
//
//   style            weight     bias        input becomes  output is   gradient of the input is
//   ColwiseParallel  S(0)       S(0)        R              S(-1)       P     Linear
//                    S(1)       -           R              S(-1)       -     Embedding
//   RowwiseParallel  S(1)       R, once     S(-1)          P           S(-1) Linear
//                    S(0)       -           R              P           -     Embedding
//
// An input without a layout is taken to be laid out as input() says: cut by torch.chunk in the last dim, whose size a
// Linear knows, and evenly in any other, as PyTorch does; hand in a DTensor where parts may differ. One with a layout,
// on the same mesh, is redistributed from there. The output is redistributed to output(), and loses its layout with
// use_local_output, as in PyTorch the default. Backward takes the same way back. A Partial gradient of an input that
// came with the wanted layout is handed on as it is: whoever made that layout adds up the gradients of all users and
// reduces once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "chapters/04_sharded_linear/module.hpp"

namespace course {

class ParallelStyle {
 public:
  virtual ~ParallelStyle() = default;
  // Cuts the module's parameters and installs the hooks. Before its parameters are filled; no communication. Throws
  // SharedError when the mesh is not 1-D, the module already has a style, or is of a kind that the style does not know.
  void apply(Module& module, const DeviceMesh& tp) const;
  virtual std::string show() const = 0;

 private:
  virtual void cut(Module& module, const DeviceMesh& tp) const = 0;
};

class ColwiseParallel : public ParallelStyle {
 public:
  ColwiseParallel& input(Placement layout) { return input_ = layout, *this; }    // Replicate
  ColwiseParallel& output(Placement layout) { return output_ = layout, *this; }  // Shard(-1)
  ColwiseParallel& use_local_output(bool yes) { return use_local_output_ = yes, *this; }
  // Cuts between blocks of so many columns: attention heads stay whole.
  ColwiseParallel& block(int64_t columns) { return block_ = columns, *this; }
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  Placement input_ = Replicate();
  std::optional<Placement> output_;
  bool use_local_output_ = true;
  int64_t block_ = 1;
};

class RowwiseParallel : public ParallelStyle {
 public:
  RowwiseParallel& input(Placement layout) { return input_ = layout, *this; }    // Shard(-1); give Replicate() for ids
  RowwiseParallel& output(Placement layout) { return output_ = layout, *this; }  // Replicate
  RowwiseParallel& use_local_output(bool yes) { return use_local_output_ = yes, *this; }
  RowwiseParallel& block(int64_t rows) { return block_ = rows, *this; }
  std::string show() const override;

 private:
  void cut(Module& module, const DeviceMesh& tp) const override;
  std::optional<Placement> input_;
  Placement output_ = Replicate();
  bool use_local_output_ = true;
  int64_t block_ = 1;
};

// The two halves that styles are made of.

// From a local shape to that of the whole, where cuts may be uneven. None: even cuts.
using WholeShape = std::function<Shape(Shape)>;

// before_forward: takes a plain input as `given`, redistributes to `wanted`, drops the layout with `to_local`.
// after_backward: takes a plain gradient as `gradient`; redistributes to what the input was, unless it came as
// `wanted`.
Hooks convert_input(const DeviceMesh& tp, const Placement& given, const Placement& wanted, const Placement& gradient,
                    bool to_local, WholeShape whole = nullptr);
// after_forward: takes a plain output as `produced`, redistributes to `wanted`, drops the layout with `to_local`.
// before_backward: takes a plain gradient as `wanted`, redistributes to what `produced` wants as its gradient.
Hooks convert_output(const DeviceMesh& tp, const Placement& produced, const Placement& wanted, bool to_local,
                     WholeShape whole = nullptr);

}  // namespace course
