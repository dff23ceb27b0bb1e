// A weight: which global tensor it is, which part of it this rank computes with, and how its gradient lies on the
// ranks.
//
// It is declared with its global shape, then cut by the styles, then filled: no rank ever holds more than its part. The
// initial values depend on (seed, name, global index) alone, so every mesh starts from the same weights.
#pragma once

#include <string>
#include <vector>

#include "chapters/03_device_mesh/dtensor.hpp"

namespace course {

// How a weight starts: PyTorch's defaults, with the bound of the global shape.
struct Init {
  enum Kind { Uniform, Normal, Constant } kind;
  double value;  // the bound ±value; the standard deviation; the constant
};

class Parameter {
 public:
  Parameter(Backend& backend, std::string name, Shape global, Init init);
  Parameter(const Parameter&) = delete;

  const std::string& name() const {
    return name_;
  }  // "layers.0.mlp.up_proj.weight": the path from the root that named it
  void rename(std::string path) { name_ = std::move(path); }
  const Shape& global() const { return global_; }
  Backend& backend() const { return *backend_; }

  // Cuts the part that this rank computes with over one more axis: torch.chunk of what the earlier cuts left. Say also
  // how the gradient lies there: as the value, or Partial where each rank sees only part of the rows. Before fill().
  void place(const DeviceMesh& axis, const Placement& value, const Placement& grad);
  // Cuts what this rank owns over one more axis, in dim 0 (FSDP, chapter 12): `value` is then whole only between gather
  // and release. Before fill().
  void own_part(const DeviceMesh& axis);

  // Modules compute with a copy of the value in this type from now on (mixed precision, chapter 09); what is owned, and
  // gradients, stay f32. The copy is made anew when the value has changed, or gathered by FSDP. Before fill().
  void compute_in(DType type);
  DType compute_type() const { return type_; }

  Placement placement(const std::string& axis) const;       // Replicate on an axis that nobody placed it on
  Placement grad_placement(const std::string& axis) const;  // the same where nothing else was said
  void set_grad_placement(const std::string& axis, const Placement& grad);
  // True on the one rank of those that hold equal copies that counts and saves them: coordinate 0 of each axis of the
  // mesh on which the parameter is replicated.
  bool speaks_for(const DeviceMesh& mesh) const;

  // Fills what this rank owns: the initial values, or its box of a global tensor given as floats.
  void fill(uint64_t seed);
  void fill(const std::vector<float>& whole);

  // What the modules compute with: this rank's part after the tensor-parallel cuts, in dims `box` of the global tensor.
  const Box& box() const { return box_; }
  const Tensor& value() const;
  Tensor& gradient();                                    // of value(); zeros on first use after clear_gradient()
  bool has_gradient() const { return grad_.defined(); }  // since clear_gradient(), or take_gradient()

  // What the optimizer updates and a checkpoint saves, in f32: the same, unless own_part() cut it further or modules
  // compute in another type. To write, take it anew each time: the copy that modules compute with is then out of date.
  bool owns_part() const { return owns_part_; }
  const Box& owned_box() const { return owns_part_ ? owned_box_ : box_; }
  const Tensor& owned() const { return apart() ? owned_ : value_; }
  Tensor& owned_to_write();
  Tensor& owned_gradient() { return owns_part_ ? owned_grad_ : gradient(); }
  void clear_gradient();

  // FSDP's side of own_part(): hand in the gathered value, in compute_type(), or take it away; hand in the reduced
  // gradient of the owned part.
  void gather(Tensor value);
  void release() { value_ = {}; }
  bool gathered() const { return value_.defined(); }
  Tensor take_gradient();  // of value(), zeros where no backward came; the next backward starts anew
  void add_owned_gradient(Tensor grad);

 private:
  struct Cut {
    std::string axis;
    int64_t coordinate;
    Placement value, grad;
  };
  void fill(const std::function<float(int64_t)>& at_global_index);
  bool copied() const { return type_ != DType::F32 && !owns_part_; }  // value_ is a copy of owned_
  bool apart() const { return type_ != DType::F32 || owns_part_; }    // owned_ is in use, and not value_ itself

  Backend* backend_;
  std::string name_;
  Shape global_;
  Init init_;
  std::vector<Cut> cuts_;
  Box box_, owned_box_;
  bool owns_part_ = false;
  DType type_ = DType::F32;
  mutable Tensor value_;  // mutable: a copy is made when it is asked for
  mutable bool outdated_ = false;
  Tensor grad_, owned_, owned_grad_;
};

using Parameters = std::vector<Parameter*>;

}  // namespace course
