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

  int64_t stride = ranks;
  for (const auto& axis : axes) {
    stride /= axis.size;
    const int64_t coordinate = world.rank() / stride % axis.size;
    // Ranks of one group have all other coordinates in common: the rank number with this coordinate set to 0.
    const int64_t group = world.rank() - coordinate * stride;
    auto comm = world.split(static_cast<int>(group), static_cast<int>(coordinate), axis.name);
    axes_.push_back(std::make_shared<const Axis>(Axis{axis.name, axis.size, coordinate, std::move(comm)}));
  }
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
