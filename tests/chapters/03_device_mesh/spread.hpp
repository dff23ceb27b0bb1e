// A tensor that every rank knows whole, laid on a mesh by index arithmetic alone, with no collective: what a
// redistribution starts from, and what it must come to.
#pragma once

#include "chapters/03_device_mesh/dtensor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

// Every mesh of `axes` axes with as many ranks as the world.
std::vector<std::vector<MeshAxis>> mesh_shapes(int64_t axes);

// Elements of a type as the numbers that they stand for: whole ones for the types that are not f32.
Tensor make_as(DType type, Shape shape, const std::function<float(int64_t)>& value);
// Any type, as its bytes.
std::vector<uint8_t> bytes_of(const Tensor& x);

// Random values, named by `name`. Over the Partial axes the value is a sum, and each rank holds a term of its own.
class Spread {
 public:
  Spread(const std::string& name, Shape shape, DType type = DType::F32)
      : name_(name), shape_(std::move(shape)), type_(type) {}

  // This rank's part, of its term.
  DTensor parts(const DeviceMesh& mesh, const Placements& placements) const;
  // What this rank must hold under `to` of a value that came from `from`: its part of the sum of terms. Axes that are
  // Partial in both keep their terms.
  Tensor expected(const DeviceMesh& mesh, const Placements& from, const Placements& to) const;

 private:
  Tensor part(const DeviceMesh& mesh, const Placements& terms_of, const Placements& kept, const Placements& cuts) const;
  std::vector<float> term(int64_t index) const;

  std::string name_;
  Shape shape_;
  DType type_;
};

// Whether every rank of the mesh can cut so: blocks divide what they cut.
bool can_cut(const DeviceMesh& mesh, const Placements& placements, const Shape& shape);

// All combinations of `choices`, one for each axis.
std::vector<Placements> combinations(const Placements& choices, int64_t axes);

}  // namespace course::test
