// A box: which part of a global tensor a rank holds. Checkpoints and initial weights speak in boxes, so no mesh is assumed.
#pragma once

#include <optional>

#include "common/tensor.hpp"

namespace course {

struct Box {
  Shape offset, size;  // one number a dim
  bool operator==(const Box&) const = default;
};

Box whole_box(const Shape& global);                        // offset 0, size global
Box cut(Box box, int64_t dim, int64_t begin, int64_t size);  // part of a box; begin counts from the box's own start
Shape index_in(const Shape& shape, int64_t place);         // [3,7] from a place in row-major order
std::optional<Box> intersect(const Box& a, const Box& b);  // nothing where they share no element

// Copies the elements that two boxes of one global tensor share. `from` and `to` hold the whole of their boxes, row-major.
void copy_shared(const Box& from_box, const void* from, const Box& to_box, void* to, int64_t element_bytes);

std::string show(const Box& box);  // "[0:4,8:16]"

}  // namespace course
