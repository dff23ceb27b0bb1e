// The cases of tests/cases: the input, the right value and the value of each fault, where a case has numbers.
//
//   const auto B51 = the_case("B51");
//   CHECK(differs(y, tensor_of(B51["right"]["y"])) == "");
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/tensor.hpp"

namespace course::test {

// An entry of tests/cases/cases.json (tests run in the root of the repository). Throws when there is none.
nlohmann::json the_case(const std::string& id);
// The numbers of a list of any depth, in order.
std::vector<float> floats_of(const nlohmann::json& list);
// The same on the tests' backend, in the shape that the nesting has.
Tensor tensor_of(const nlohmann::json& list);
Tensor ids_of(const nlohmann::json& list);  // i32

}  // namespace course::test
