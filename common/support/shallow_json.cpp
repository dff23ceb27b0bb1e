#include "common/support/shallow_json.hpp"

#include <nlohmann/json.hpp>

#include "common/check.hpp"

namespace course {

using nlohmann::json;

json parse_shallow_json(std::string_view text) {
  const auto shallow = [](int depth, json::parse_event_t, json&) {
    require(depth <= kDeepestJson, "nested deeper than ", kDeepestJson);
    return true;
  };
  return json::parse(text.begin(), text.end(), shallow);
}

}  // namespace course
