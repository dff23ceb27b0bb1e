// Where a value went wrong: the search for the first number that is nan or infinite.
#pragma once

#include <optional>
#include <string>

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// The place, in row-major order, of the first element of x (f32, bf16) that is not finite. Where all are finite, one pass on
// the device.
std::optional<int64_t> first_non_finite(Backend& backend, const Tensor& x);

// "[3,7] of the global [512,64]: nan" for the first such element of `part`, which is `box` of a tensor of that shape; ""
// where there is none.
std::string bad_value(Backend& backend, const Tensor& part, const Box& box, const Shape& global);
// The same of p's gradient on this rank.
std::string bad_gradient(Parameter& p);

}  // namespace course
