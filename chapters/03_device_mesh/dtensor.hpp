// A tensor that may be spread over a mesh: this rank's local part, and, where it has one, the layout that says what the
// parts are together. It is what crosses a module.
//
//   DTensor x = DTensor::from_local(std::move(part), mesh, {Shard(1)}, {B, S, E});
//   DTensor y = x.redistribute({Replicate()});      // an all-gather
//   y.local()                                        // [B,S,E]
//
// A handle: copies share the local tensor, which nobody changes any more. Without a layout it is a plain local tensor.
// https://docs.pytorch.org/docs/stable/distributed.tensor.html (DTensor)
#pragma once

#include <memory>
#include <optional>

#include "chapters/03_device_mesh/device_mesh.hpp"
#include "chapters/03_device_mesh/placement.hpp"
#include "common/box.hpp"

namespace course {

struct Layout {
  DeviceMesh mesh;
  Placements placements;  // one for each axis of the mesh, dims counted from the front
  Shape global;
  bool operator==(const Layout&) const = default;
};

std::string show(const Layout& layout);  // "[4,6] as [S(0),R] on dp 2 × tp 2"

// The part of a tensor that the rank at these coordinates holds: the axes cut one after the other, each what the ones
// before it left. Replicate and Partial cut nothing.
Box local_box(const DeviceMesh& mesh, const Placements& placements, const Shape& global);
Box local_box(const std::vector<int64_t>& sizes, const std::vector<int64_t>& coordinates, const Placements& placements,
              const Shape& global);

class DTensor {
 public:
  DTensor() = default;
  DTensor(Tensor local);  // NOLINT: a plain tensor is a DTensor without a layout
  DTensor(Tensor local, Layout layout);

  // Labels a local part; no communication. Without `global`, each cut dim is taken to be cut evenly, as PyTorch does;
  // give it where parts may differ. Throws when the local shape is not what the layout says.
  static DTensor from_local(const DTensor& local, const DeviceMesh& mesh, Placements placements,
                            std::optional<Shape> global = std::nullopt);

  bool defined() const { return local_ != nullptr; }
  const Tensor& local() const;
  bool has_layout() const { return layout_ != nullptr; }
  const Layout& layout() const;
  const Shape& global() const;  // the shape of the whole; the local shape where there is no layout

  DTensor to_local() const;  // without the layout
  // Axis by axis, from the left, each as the table of redistribute.hpp. A cut that lies inside one that changes (an
  // axis to the right on the same dim) is joined first and made again after. Collective over the mesh. What the target
  // asks in vain (Partial, a block that does not divide) is refused before anything is sent.
  DTensor redistribute(const Placements& to) const;
  Tensor full() const;  // the whole, on every rank; collective over the mesh

  // The local tensor to write on: moved out where this is its only handle, else a copy.
  Tensor take(Backend& backend) &&;

 private:
  std::shared_ptr<Tensor> local_;
  std::shared_ptr<const Layout> layout_;
};

// a + b. Both plain, or both of one layout: a forgotten collective is an error here, not a wrong average.
DTensor add(Backend& backend, DTensor a, const DTensor& b);

}  // namespace course
