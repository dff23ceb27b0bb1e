#include "chapters/09_llama/non_finite.hpp"

#include <cmath>

namespace course {

std::optional<int64_t> first_non_finite(Backend& backend, const Tensor& x) {
  if (std::isfinite(backend.squared_norm(x))) return {};  // squares of f32 and bf16 are finite in double
  const auto values = backend.floats(x);
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return static_cast<int64_t>(i);
  return {};
}

std::string bad_value(Backend& backend, const Tensor& part, const Box& box, const Shape& global) {
  const auto place = first_non_finite(backend, part);
  if (!place) return "";
  Shape index = index_in(part.shape(), *place);
  for (size_t d = 0; d < index.size(); ++d) index[d] += box.offset[d];
  return cat(show(index), " of the global ", show(global), ": ", backend.to_host(part)[*place]);
}

std::string bad_gradient(Parameter& p) {
  const Tensor& gradient = p.owned_gradient();
  return gradient.defined() ? bad_value(p.backend(), gradient, p.owned_box(), p.global()) : "";
}

}  // namespace course
