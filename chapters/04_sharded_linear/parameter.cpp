#include "chapters/04_sharded_linear/parameter.hpp"

#include "common/chunk.hpp"
#include "common/rng.hpp"

namespace course {

Parameter::Parameter(Backend& backend, std::string name, Shape global, Init init)
    : backend_(&backend), name_(std::move(name)), global_(std::move(global)), init_(init), box_(whole_box(global_)) {}

void Parameter::place(const DeviceMesh& axis, const Placement& value, const Placement& grad) {
  require(!value_.defined() && !owned_.defined(), name_, ": a parameter is cut before it is filled");
  require(!owns_part_, name_, ": tensor parallelism cuts before FSDP does");
  require(!is_partial(value), name_, ": a value cannot be placed as P");
  for (const auto& cut : cuts_) require(cut.axis != axis.name(0), name_, ": placed on ", cut.axis, " twice");
  const int64_t dims = static_cast<int64_t>(global_.size());
  const Placement p = from_front(value, dims);
  cuts_.push_back({axis.name(0), axis.coordinate(), p, from_front(grad, dims)});
  if (const Shard* s = as_shard(p)) {
    const Chunk piece = chunk(box_.size[s->dim], axis.size(), axis.coordinate(), s->block);
    box_ = cut(box_, s->dim, piece.offset, piece.size);
  }
}

void Parameter::own_part(const DeviceMesh& axis) {
  require(!value_.defined() && !owned_.defined(), name_, ": a parameter is cut before it is filled");
  require(!owns_part_, name_, ": owned in parts twice");
  require(!global_.empty(), name_, ": a scalar cannot be cut");
  const Chunk piece = chunk(box_.size[0], axis.size(), axis.coordinate());
  owned_box_ = cut(box_, 0, piece.offset, piece.size);
  cuts_.push_back({axis.name(0), axis.coordinate(), Shard{0}, Shard{0}});
  owns_part_ = true;
}

void Parameter::compute_in(DType type) {
  require(!value_.defined() && !owned_.defined(), name_, ": its type is chosen before it is filled");
  require(type == DType::F32 || type == DType::BF16, name_, ": modules compute in f32 or bf16, not ", course::name_of(type));
  type_ = type;
}

Placement Parameter::placement(const std::string& axis) const {
  for (const auto& cut : cuts_)
    if (cut.axis == axis) return cut.value;
  return Replicate();
}

Placement Parameter::grad_placement(const std::string& axis) const {
  for (const auto& cut : cuts_)
    if (cut.axis == axis) return cut.grad;
  return Replicate();
}

void Parameter::set_grad_placement(const std::string& axis, const Placement& grad) {
  for (auto& cut : cuts_)
    if (cut.axis == axis) {
      cut.grad = from_front(grad, static_cast<int64_t>(global_.size()));
      return;
    }
  fail(cat(name_, ": not placed on ", axis, ", so its gradient cannot be"));
}

bool Parameter::speaks_for(const DeviceMesh& mesh) const {
  for (int64_t axis = 0; axis < mesh.dims(); ++axis)
    if (mesh.coordinate(axis) != 0 && is_replicate(placement(mesh.name(axis)))) return false;
  return true;
}

void Parameter::fill(const std::function<float(int64_t)>& at_global_index) {
  const Box& box = owned_box();
  std::vector<float> values(numel(box.size));
  const int64_t dims = static_cast<int64_t>(global_.size());
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    int64_t index = 0, stride = 1;
    for (int64_t d = dims - 1, rest = i; d >= 0; --d) {
      index += (box.offset[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= global_[d];
    }
    values[i] = at_global_index(index);
  }
  const MemoryScope scope(MemoryClass::Parameters);
  (apart() ? owned_ : value_) = backend_->from_host(values, box.size);
  outdated_ = copied();
  if (outdated_) value();  // now, so that memory is steady from here on
  if (owns_part_) value_ = {};  // what was gathered before is out of date
}

void Parameter::fill(uint64_t seed) {
  const Rng rng(seed, name_);
  const double size = init_.value;
  fill([&](int64_t i) {
    switch (init_.kind) {
      case Init::Uniform:
        return static_cast<float>((2 * rng.uniform(i) - 1) * size);
      case Init::Normal:
        return static_cast<float>(rng.normal(i) * size);
      case Init::Constant:
        break;
    }
    return static_cast<float>(size);
  });
}

void Parameter::fill(const std::vector<float>& whole) {
  require(static_cast<int64_t>(whole.size()) == numel(global_), name_, " has shape ", show(global_), ", ", whole.size(),
          " values were given");
  fill([&](int64_t i) { return whole[i]; });
}

Tensor& Parameter::owned_to_write() {
  outdated_ = copied() && owned_.defined();
  return apart() ? owned_ : value_;
}

const Tensor& Parameter::value() const {
  if (outdated_) {
    const MemoryScope scope(MemoryClass::Parameters);
    if (!value_.defined()) value_ = backend_->empty(box_.size, type_);
    backend_->cast(owned_, value_);
    outdated_ = false;
  }
  require(value_.defined(), name_, owns_part_ ? ": its parts are not gathered" : ": not filled yet");
  return value_;
}

Tensor& Parameter::gradient() {
  const MemoryScope scope(MemoryClass::Gradients);
  if (!grad_.defined()) grad_ = backend_->zeros(box_.size);
  return grad_;
}

Tensor Parameter::take_gradient() {
  gradient();
  return std::exchange(grad_, {});
}

void Parameter::clear_gradient() {
  grad_ = {};
  owned_grad_ = {};
}

void Parameter::gather(Tensor value) {
  require(value.shape() == box_.size && value.dtype() == type_, name_, ": gathered ", course::name_of(value.dtype()), " ",
          shown(value.shape()), ", expected ", course::name_of(type_), " ", shown(box_.size));
  value_ = std::move(value);
}

void Parameter::add_owned_gradient(Tensor grad) {
  require(grad.shape() == owned_box_.size, name_, ": a gradient of ", shown(grad.shape()), " for a part of ",
          shown(owned_box_.size));
  if (owned_grad_.defined())
    backend_->add(owned_grad_, grad);
  else
    owned_grad_ = std::move(grad);
}

}  // namespace course
