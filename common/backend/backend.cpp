#include "common/backend/backend.hpp"

#include <algorithm>

namespace course {

void MemoryUse::allocated(int64_t bytes, MemoryClass what) {
  now += bytes;
  now_of[what] += bytes;
  peak_of[what] = std::max(peak_of[what], now_of[what]);
  if (now > peak) {
    peak = now;
    at_peak = now_of;
  }
}

void MemoryUse::released(int64_t bytes, MemoryClass what) {
  now -= bytes;
  now_of[what] -= bytes;
}

void MemoryUse::reset_peak() {
  peak = now;
  peak_of = at_peak = now_of;
}

Tensor Backend::full(Shape shape, float value) {
  Tensor x = empty(std::move(shape));
  fill(x, value);
  return x;
}

Tensor Backend::in_type(Tensor x, DType type) {
  if (x.dtype() == type) return x;
  Tensor y = empty(x.shape(), type);
  cast(x, y);
  return y;
}

std::vector<float> Backend::floats(const Tensor& x) {
  if (x.dtype() == DType::F32) return to_host(x);
  Tensor y = empty(x.shape());
  cast(x, y);
  return to_host(y);
}

Tensor Backend::clone(const Tensor& x) {
  Tensor y = empty(x.shape(), x.dtype());
  copy(x, y);
  return y;
}

void Backend::copy_slice(const Tensor& from, int64_t from_begin, Tensor& to, int64_t to_begin, int64_t dim, int64_t count) {
  Shape source = from.shape(), target = to.shape();
  if (dim < 0) dim += from.rank();
  const int64_t source_size = from.dim(dim), target_size = to.dim(dim);
  require(from_begin >= 0 && to_begin >= 0 && count >= 0 && from_begin + count <= source_size &&
              to_begin + count <= target_size,
          "cannot copy ", count, " indices of dim ", dim, " from ", from_begin, " of ", show(source), " to ", to_begin, " of ",
          show(target));
  source[dim] = target[dim] = 1;
  require(source == target, "shapes ", show(from.shape()), " and ", show(to.shape()), " differ beside dim ", dim);
  const int64_t outer = numel(Shape(source.begin(), source.begin() + dim));
  const int64_t inner = numel(Shape(source.begin() + dim, source.end()));
  copy_blocks(from, from_begin * inner, source_size * inner, to, to_begin * inner, target_size * inner, outer, count * inner);
}

Tensor Backend::slice(const Tensor& x, int64_t dim, int64_t begin, int64_t count) {
  Shape shape = x.shape();
  shape.at(dim) = count;
  Tensor y = empty(std::move(shape), x.dtype());
  copy_slice(x, begin, y, 0, dim, count);
  return y;
}

}  // namespace course
