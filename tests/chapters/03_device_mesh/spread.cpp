#include "tests/chapters/03_device_mesh/spread.hpp"

#include <cmath>
#include <cstring>

namespace course::test {

std::vector<std::vector<MeshAxis>> mesh_shapes(int64_t axes) {
  const int64_t ranks = world().size();
  std::vector<std::vector<MeshAxis>> shapes;
  if (axes == 1) return {{{"tp", ranks}}};
  for (int64_t first = 1; first <= ranks; ++first) {
    if (ranks % first) continue;
    if (axes == 2) {
      shapes.push_back({{"dp", first}, {"tp", ranks / first}});
      continue;
    }
    for (int64_t second = 1; second <= ranks / first; ++second)
      if (ranks / first % second == 0)
        shapes.push_back({{"pp", first}, {"dp", second}, {"tp", ranks / first / second}});
  }
  return shapes;
}

Tensor make_as(DType type, Shape shape, const std::function<float(int64_t)>& value) {
  if (type == DType::F32) return make(std::move(shape), value);
  Tensor x = backend().empty(std::move(shape), type);
  std::vector<uint8_t> bytes(x.bytes());
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (type == DType::BF16) {
      uint32_t bits = 0;
      const float f = value(i);
      std::memcpy(&bits, &f, 4);
      const uint16_t upper = static_cast<uint16_t>(bits >> 16);
      std::memcpy(&bytes[2 * i], &upper, 2);
    } else {
      require(type == DType::I32, "no values of ", name_of(type));
      const int32_t whole = static_cast<int32_t>(std::lround(1000 * value(i)));
      std::memcpy(&bytes[4 * i], &whole, 4);
    }
  }
  backend().copy_in(x, bytes.data());
  return x;
}

std::vector<uint8_t> bytes_of(const Tensor& x) {
  std::vector<uint8_t> bytes(x.bytes());
  backend().copy_out(x, bytes.data());
  return bytes;
}

std::vector<float> Spread::term(int64_t index) const {
  const Rng rng(11, cat(name_, index));
  std::vector<float> values(numel(shape_));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2 * rng.uniform(i) - 1);
    if (type_ == DType::I32) values[i] = std::round(values[i] * 1000) / 1000;  // so that a sum of them is one of them
  }
  return values;
}

Tensor Spread::part(const DeviceMesh& mesh, const Placements& terms_of, const Placements& kept,
                    const Placements& cuts) const {
  std::vector<double> sum(numel(shape_), 0);
  int64_t terms = 1;
  for (int64_t axis = 0; axis < mesh.dims(); ++axis)
    if (is_partial(terms_of[axis])) terms *= mesh.size(axis);
  for (int64_t t = 0; t < terms; ++t) {
    bool mine = true;  // a term is known by its coordinates on the Partial axes
    int64_t rest = t;
    for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
      if (!is_partial(terms_of[axis])) continue;
      if (is_partial(kept[axis]) && rest % mesh.size(axis) != mesh.coordinate(axis)) mine = false;
      rest /= mesh.size(axis);
    }
    if (!mine) continue;
    const std::vector<float> values = term(t);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  const Box box = local_box(mesh, cuts, shape_);
  return make_as(type_, box.size, [&](int64_t i) {
    int64_t at = 0, step = 1;  // the element's place in the whole
    for (int64_t d = static_cast<int64_t>(shape_.size()) - 1; d >= 0; --d) {
      at += (box.offset[d] + i % box.size[d]) * step;
      i /= box.size[d];
      step *= shape_[d];
    }
    return static_cast<float>(sum[at]);
  });
}

DTensor Spread::parts(const DeviceMesh& mesh, const Placements& placements) const {
  return DTensor(part(mesh, placements, placements, placements), {mesh, placements, shape_});
}

Tensor Spread::expected(const DeviceMesh& mesh, const Placements& from, const Placements& to) const {
  return part(mesh, from, to, to);
}

bool can_cut(const DeviceMesh& mesh, const Placements& placements, const Shape& shape) {
  std::vector<int64_t> sizes, at(mesh.dims(), 0);
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) sizes.push_back(mesh.size(axis));
  while (true) {
    try {
      local_box(sizes, at, placements, shape);
    } catch (const Error&) {
      return false;
    }
    int64_t axis = mesh.dims() - 1;
    for (; axis >= 0; at[axis--] = 0)
      if (++at[axis] < sizes[axis]) break;
    if (axis < 0) return true;
  }
}

std::vector<Placements> combinations(const Placements& choices, int64_t axes) {
  std::vector<Placements> all = {{}};
  for (int64_t axis = 0; axis < axes; ++axis) {
    std::vector<Placements> longer;
    for (const auto& begun : all)
      for (const auto& choice : choices) {
        longer.push_back(begun);
        longer.back().push_back(choice);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace course::test
