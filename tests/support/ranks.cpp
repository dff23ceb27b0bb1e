#include "tests/support/ranks.hpp"

#include <cmath>

#include "common/box.hpp"

namespace course::test {

Tensor random(const std::string& name, Shape shape, float size) {
  const Rng rng(7, name);
  return make(std::move(shape), [&](int64_t i) { return static_cast<float>(2 * rng.uniform(i) - 1) * size; });
}

Tensor make(Shape shape, const std::function<float(int64_t)>& value) {
  std::vector<float> values(numel(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(i);
  return backend().from_host(values, std::move(shape));
}

Tensor half(const Tensor& x) {
  Tensor y = backend().empty(x.shape(), DType::BF16);
  backend().cast(x, y);
  return y;
}

Tensor wide(const Tensor& x) {
  Tensor y = backend().empty(x.shape());
  backend().cast(x, y);
  return y;
}

std::string differs(const std::vector<float>& a, const std::vector<float>& b, const Shape& shape, double tolerance) {
  if (a.size() != b.size()) return cat("sizes ", a.size(), " and ", b.size());
  double squares = 0;
  for (const float x : b) squares += double(x) * x;
  const double rms = b.empty() ? 0 : std::sqrt(squares / b.size());
  int64_t first = -1, count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(double(a[i]) - b[i]) <= tolerance * (std::abs(double(b[i])) + rms)) continue;
    if (a[i] == b[i]) continue;  // infinities
    if (first < 0) first = i;
    ++count;
  }
  if (count == 0) return "";
  std::ostringstream text;
  text.precision(9);
  text << show(shape) << " rank " << world().rank() << " of " << world().size() << ": first at " << show(index_in(shape, first)) << ": " << a[first]
       << ", should be " << b[first] << "; " << count << " of " << a.size() << " differ by more than " << tolerance;
  return text.str();
}

std::string differs(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.shape() != b.shape()) return cat("shapes ", show(a.shape()), " and ", show(b.shape()));
  return differs(backend().to_host(a), backend().to_host(b), b.shape(), tolerance);
}

}  // namespace course::test
