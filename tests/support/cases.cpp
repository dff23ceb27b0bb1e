#include "tests/support/cases.hpp"

#include <fstream>

#include "common/check.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

using nlohmann::json;

template <typename T>
void flatten(const json& value, std::vector<T>& into) {
  if (!value.is_array()) return into.push_back(value.get<T>());
  for (const auto& part : value) flatten(part, into);
}

template <typename T>
Tensor in_its_shape(const json& list) {
  Shape shape;
  for (const json* at = &list; at->is_array(); at = &at->front()) shape.push_back(std::ssize(*at));
  std::vector<T> values;
  flatten(list, values);
  return backend().from_host(values, shape);
}

}  // namespace

json the_case(const std::string& id) {
  std::ifstream file("tests/cases/cases.json");
  require(file.good(), "cannot read tests/cases/cases.json");
  return json::parse(file).at(id);
}

std::vector<float> floats_of(const json& list) {
  std::vector<float> values;
  flatten(list, values);
  return values;
}

Tensor tensor_of(const json& list) { return in_its_shape<float>(list); }
Tensor ids_of(const json& list) { return in_its_shape<int32_t>(list); }

}  // namespace course::test
