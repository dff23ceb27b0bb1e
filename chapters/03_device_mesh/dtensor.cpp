#include "chapters/03_device_mesh/dtensor.hpp"

#include "chapters/03_device_mesh/redistribute.hpp"
#include "common/chunk.hpp"

namespace course {
namespace {

Placements from_front(Placements placements, int64_t dims) {
  for (auto& p : placements) p = course::from_front(p, dims);
  return placements;
}

// What the ranks of one axis hold together: the global shape after the cuts of all other axes. Only an axis before it
// may cut the same dim; redistribute() undoes later ones first.
Shape shape_across(const Layout& layout, int64_t axis) {
  Placements others = layout.placements;
  others[axis] = Replicate();
  return local_box(layout.mesh, others, layout.global).size;
}

// The layout, once the part that is here has been found to have the shape that it says.
std::shared_ptr<const Layout> checked_layout(Layout layout, const Tensor& local) {
  layout.placements = from_front(std::move(layout.placements), std::ssize(layout.global));
  const Shape expected = local_box(layout.mesh, layout.placements, layout.global).size;
  require(local.shape() == expected, "a part of ", show(layout), " has shape ", show(expected), " here, not ",
          show(local.shape()));
  return std::make_shared<const Layout>(std::move(layout));
}

// Whether one axis, on its way from one placement to another, cuts or joins dim `dim`.
bool touches(const Placement& from, const Placement& to, int64_t dim) {
  const Shard *source = as_shard(from), *target = as_shard(to);
  return from != to && ((source && source->dim == dim) || (target && target->dim == dim));
}

}  // namespace

std::string show(const Layout& layout) {
  return cat(show(layout.global), " as ", show(layout.placements), " on ", layout.mesh.show());
}

Box local_box(const std::vector<int64_t>& sizes, const std::vector<int64_t>& coordinates, const Placements& placements,
              const Shape& global) {
  require(placements.size() == sizes.size(), placements.size(), " placements for a mesh of ", sizes.size(), " axes");
  Box box = whole_box(global);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const Placement p = from_front(placements[axis], static_cast<int64_t>(global.size()));
    if (const Shard* s = as_shard(p)) {
      const Chunk piece = chunk(box.size[s->dim], sizes[axis], coordinates[axis], s->block);
      box = cut(box, s->dim, piece.offset, piece.size);
    }
  }
  return box;
}

Box local_box(const DeviceMesh& mesh, const Placements& placements, const Shape& global) {
  std::vector<int64_t> sizes, coordinates;
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
    sizes.push_back(mesh.size(axis));
    coordinates.push_back(mesh.coordinate(axis));
  }
  return local_box(sizes, coordinates, placements, global);
}

DTensor::DTensor(Tensor local) : local_(std::make_shared<Tensor>(std::move(local))) {}

DTensor::DTensor(Tensor local, Layout layout) : DTensor(std::move(local)) {
  layout_ = checked_layout(std::move(layout), *local_);
}

DTensor DTensor::from_local(const DTensor& local, const DeviceMesh& mesh, Placements placements,
                            std::optional<Shape> global) {
  if (!global) {
    global = local.local().shape();
    require(std::ssize(placements) == mesh.dims(), placements.size(), " placements for a mesh of ", mesh.dims(),
            " axes");
    placements = from_front(std::move(placements), std::ssize(*global));
    for (int64_t axis = 0; axis < mesh.dims(); ++axis)
      if (const Shard* s = as_shard(placements[axis])) (*global)[s->dim] *= mesh.size(axis);
  }
  DTensor labelled = local;
  labelled.layout_ = checked_layout({mesh, std::move(placements), std::move(*global)}, local.local());
  return labelled;
}

const Tensor& DTensor::local() const {
  require(defined(), "a DTensor that holds nothing was read");
  return *local_;
}

const Layout& DTensor::layout() const {
  require(has_layout(), "a plain tensor of shape ", defined() ? show(local_->shape()) : "nothing", " has no layout");
  return *layout_;
}

const Shape& DTensor::global() const { return has_layout() ? layout_->global : local().shape(); }

DTensor DTensor::to_local() const {
  DTensor plain = *this;
  plain.layout_ = nullptr;
  return plain;
}

DTensor DTensor::redistribute(const Placements& placements) const {
  const DeviceMesh& mesh = layout().mesh;
  require_shared(std::ssize(placements) == mesh.dims(), "redistribute: ", placements.size(),
                 " placements for a mesh of ", mesh.dims(), " axes");
  // What cannot be is refused before anything is sent: a Partial, and in local_box() a block that does not divide.
  const Placements to = from_front(placements, std::ssize(global()));
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) require_possible(layout().placements[axis], to[axis]);
  local_box(mesh, to, global());

  DTensor at = *this;
  const auto move = [&](int64_t axis, const Placement& target) {
    Layout layout = at.layout();
    if (layout.placements[axis] == target) return;
    if (mesh.size(axis) > 1)
      at.local_ = std::make_shared<Tensor>(course::redistribute(
          mesh.backend(), mesh.comm(axis), at.local(), shape_across(layout, axis), layout.placements[axis], target));
    layout.placements[axis] = target;
    at.layout_ = std::make_shared<const Layout>(std::move(layout));
  };
  // Right to left: take away cuts that stand in the way of an axis before them. Then left to right: to the target.
  for (int64_t axis = mesh.dims() - 1; axis > 0; --axis)
    for (int64_t before = 0; before < axis; ++before) {
      const Placements& now = at.layout().placements;
      const Shard* cut = as_shard(now[axis]);
      if (cut && mesh.size(before) > 1 && touches(now[before], to[before], cut->dim)) move(axis, Replicate());
    }
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) move(axis, to[axis]);
  return at;
}

Tensor DTensor::full() const {
  return redistribute(Placements(layout().mesh.dims(), Replicate())).take(layout().mesh.backend());
}

Tensor DTensor::take(Backend& backend) && {
  require(defined(), "a DTensor that holds nothing was taken");
  const auto own = std::move(local_);
  layout_ = nullptr;
  return own.use_count() == 1 ? std::move(*own) : backend.clone(*own);
}

DTensor add(Backend& backend, DTensor a, const DTensor& b) {
  require(a.has_layout() == b.has_layout() && (!a.has_layout() || a.layout() == b.layout()), "cannot add ",
          a.has_layout() ? show(a.layout()) : cat("a plain ", show(a.local().shape())), " and ",
          b.has_layout() ? show(b.layout()) : cat("a plain ", show(b.local().shape())), ": a redistribute is missing");
  require(a.local().shape() == b.local().shape(), "cannot add shapes ", show(a.local().shape()), " and ",
          show(b.local().shape()));
  std::optional<Layout> layout;
  if (a.has_layout()) layout = a.layout();
  Tensor sum = std::move(a).take(backend);
  backend.add(sum, b.local());
  return layout ? DTensor(std::move(sum), *layout) : DTensor(std::move(sum));
}

}  // namespace course
