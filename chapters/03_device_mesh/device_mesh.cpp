#include "chapters/03_device_mesh/device_mesh.hpp"

namespace course {

DeviceMesh::DeviceMesh(Comm& world, Backend& backend, const std::vector<MeshAxis>& axes) : backend_(&backend) {
  require_shared(!axes.empty(), "a mesh has one axis or more");
  std::string shape;
  int64_t ranks = 1;
  for (const auto& axis : axes) {
    require_shared(axis.size > 0, "mesh axis ", axis.name, " has size ", axis.size);
    for (const auto& other : axes)
      require_shared(&other == &axis || other.name != axis.name, "a mesh has two axes named ", axis.name);
    ranks *= axis.size;
    shape += cat(shape.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  require_shared(ranks == world.size(), "a mesh of ", shape, " needs ", ranks, " ranks, there are ", world.size());

  // exercise mesh {
  int64_t stride = ranks;
  for (const auto& axis : axes) {
    stride /= axis.size;
    const int64_t coordinate = world.rank() / stride % axis.size;
    // Ranks of one group have all other coordinates in common: the rank number with this coordinate set to 0.
    const int64_t group = world.rank() - coordinate * stride;
    auto comm = world.split(static_cast<int>(group), static_cast<int>(coordinate), axis.name);
    axes_.push_back(std::make_shared<const Axis>(Axis{axis.name, axis.size, coordinate, std::move(comm)}));
  }
  // } exercise
}

bool DeviceMesh::has(const std::string& axis) const {
  for (const auto& own : axes_)
    if (own->name == axis) return true;
  return false;
}

int64_t DeviceMesh::index(const std::string& axis) const {
  for (int64_t i = 0; i < dims(); ++i)
    if (axes_[i]->name == axis) return i;
  throw SharedError(cat("the mesh ", show(), " has no axis ", axis));
}

DeviceMesh DeviceMesh::operator[](const std::string& axis) const { return DeviceMesh({axes_[index(axis)]}, *backend_); }

std::string DeviceMesh::show() const {
  std::string text;
  for (const auto& axis : axes_) text += cat(text.empty() ? "" : " × ", axis->name, " ", axis->size);
  return text;
}

}  // namespace course

// Exercise 03 mesh
// Task: Give every axis its entry in axes_: name, size, this rank's coordinate, and the communicator of its group.
// Ranks are numbered row by row: the last axis counts fastest. world.split(group, order, name) makes a communicator of
// the ranks that name the same group, in the order of the second number; all ranks of `world` call it. `ranks` is the
// product of all sizes.
// Hint: one step along an axis is as many rank numbers as the axes after it have ranks together.
// Hint: the ranks of a group differ in this coordinate only. Which number do they share that no other group has?
// Why: A collective over one axis runs in many groups at once, each with its own communicator. So the same line of code
// adds up a layer's terms over tp and its gradients over dp, and neither knows how many ranks there are in all.
// Wrong first_counts_fastest: The first axis counts fastest here, so tp's groups lie where dp's should. Ranks are
// numbered row by row.
//   - int64_t stride = ranks;
//   + int64_t stride = 1;
//   - axes_.push_back(std::make_shared<const Axis>(Axis{axis.name, axis.size, coordinate, std::move(comm)}));
//   + axes_.push_back(std::make_shared<const Axis>(Axis{axis.name, axis.size, coordinate, std::move(comm)}));
//   + stride *= axis.size;
//   - stride /= axis.size;
// Wrong named_by_coordinate: A group is named by the coordinate on its own axis, so it holds the ranks that share it,
// which are of the other axis' group. What the ranks of a group share are all the other coordinates.
//   - const int64_t group = world.rank() - coordinate * stride;
//   + const int64_t group = coordinate;
// Wrong neighbours: Every axis gets groups of neighbours. That is right for the last axis only; along the others a step
// is wider.
//   - const int64_t group = world.rank() - coordinate * stride;
//   + const int64_t group = world.rank() / axis.size * axis.size;
// Wrong one_group: One group of all ranks for every axis: an all-reduce over tp then adds the terms of other samples.
//   - const int64_t group = world.rank() - coordinate * stride;
//   + const int64_t group = 0;
// Wrong not_modulo: The rank number is divided by the stride, and what the axes before contribute stays in it. A
// coordinate is below its axis' size.
//   - const int64_t coordinate = world.rank() / stride % axis.size;
//   + const int64_t coordinate = world.rank() / stride;
// Wrong backwards: The ranks of a group stand in reverse order, so shards are joined the wrong way round. Rank and
// coordinate are the same number in a group.
//   - auto comm = world.split(static_cast<int>(group), static_cast<int>(coordinate), axis.name);
//   + auto comm = world.split(static_cast<int>(group), static_cast<int>(axis.size - coordinate), axis.name);
