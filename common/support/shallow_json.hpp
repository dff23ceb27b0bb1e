// JSON from a stranger: the library writes, copies and frees nested values by recursion, so depth must have a limit.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace course {

constexpr int kDeepestJson = 64;  // brackets inside brackets; no file of the course has more than 8

// Parses a whole text. Throws Error when it nests deeper, nlohmann::json::exception when it is no JSON.
nlohmann::json parse_shallow_json(std::string_view text);

}  // namespace course
