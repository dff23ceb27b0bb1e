// Ranks in a grid with named axes. A 2×3 mesh ("dp", "tp") numbers its ranks row by row:
//
//            tp 0  tp 1  tp 2
//     dp 0     0     1     2        rank 4: coordinate 1 on dp, 1 on tp
//     dp 1     3     4     5        its tp group: 3 4 5, its dp group: 1 4
//
// The ranks that differ in one coordinate only form that axis' group, with a communicator of its own.
// https://docs.pytorch.org/docs/stable/distributed.html (DeviceMesh)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

struct MeshAxis {
  std::string name;
  int64_t size;
};

// A handle: copies share the axes. World and backend must outlive it.
class DeviceMesh {
 public:
  // Collective over `world`. Throws SharedError unless the sizes multiply to its size and the names differ.
  DeviceMesh(Comm& world, Backend& backend, const std::vector<MeshAxis>& axes);

  int64_t dims() const { return static_cast<int64_t>(axes_.size()); }
  const std::string& name(int64_t axis) const { return axes_.at(axis)->name; }
  int64_t size(int64_t axis = 0) const { return axes_.at(axis)->size; }
  int64_t coordinate(int64_t axis = 0) const { return axes_.at(axis)->coordinate; }
  Comm& comm(int64_t axis = 0) const { return *axes_.at(axis)->comm; }
  Backend& backend() const { return *backend_; }

  bool has(const std::string& axis) const;
  int64_t index(const std::string& axis) const;  // throws with the names there are
  // The 1-D mesh of one axis: mesh["tp"].
  DeviceMesh operator[](const std::string& axis) const;
  // "dp 2 × tp 3"
  std::string show() const;
  bool operator==(const DeviceMesh&) const = default;  // the same axes of the same mesh

 private:
  struct Axis {
    std::string name;
    int64_t size, coordinate;
    std::unique_ptr<Comm> comm;
  };
  DeviceMesh(std::vector<std::shared_ptr<const Axis>> axes, Backend& backend)
      : axes_(std::move(axes)), backend_(&backend) {}

  std::vector<std::shared_ptr<const Axis>> axes_;
  Backend* backend_;
};

}  // namespace course
