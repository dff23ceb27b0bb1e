#include "common/box.hpp"

#include <algorithm>
#include <cstring>

namespace course {

Box whole_box(const Shape& global) { return {Shape(global.size(), 0), global}; }

Box cut(Box box, int64_t dim, int64_t begin, int64_t size) {
  require(begin >= 0 && size >= 0 && begin + size <= box.size.at(dim), "cannot cut ", begin, "+", size, " from dim ", dim,
          " of ", show(box));
  box.offset[dim] += begin;
  box.size[dim] = size;
  return box;
}

Shape index_in(const Shape& shape, int64_t place) {
  Shape index(shape.size());
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    index[d] = place % shape[d];
    place /= shape[d];
  }
  return index;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  require(a.size.size() == b.size.size(), "boxes of different ranks: ", show(a), " and ", show(b));
  Box both = a;
  for (size_t d = 0; d < a.size.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) return std::nullopt;
    both.offset[d] = begin;
    both.size[d] = end - begin;
  }
  return both;
}

void copy_shared(const Box& from_box, const void* from, const Box& to_box, void* to, int64_t element_bytes) {
  const auto both = intersect(from_box, to_box);
  if (!both) return;
  const int64_t rank = static_cast<int64_t>(both->size.size());
  const auto position = [&](const Box& box, const Shape& index) {
    int64_t at = 0;
    for (int64_t d = 0; d < rank; ++d) at = at * box.size[d] + index[d] - box.offset[d];
    return at * element_bytes;
  };
  // Rows along the last dim lie together in both; the other dims count like an odometer.
  const int64_t row = (rank ? both->size[rank - 1] : 1) * element_bytes;
  Shape index = both->offset;
  while (true) {
    std::memcpy(static_cast<char*>(to) + position(to_box, index),
                static_cast<const char*>(from) + position(from_box, index), row);
    int64_t d = rank - 2;
    for (; d >= 0; --d) {
      if (++index[d] < both->offset[d] + both->size[d]) break;
      index[d] = both->offset[d];
    }
    if (d < 0) return;
  }
}

std::string show(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.size.size(); ++d)
    text += cat(d ? "," : "", box.offset[d], ":", box.offset[d] + box.size[d]);
  return text + "]";
}

}  // namespace course
