// What a call throws, for a test to look at.
#pragma once

#include <optional>
#include <string>

#include "common/check.hpp"

namespace course::test {

template <typename Act>
std::optional<Error> error_thrown(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Its words; "" where nothing is thrown.
template <typename Act>
std::string words_thrown(Act act) {
  const auto error = error_thrown(act);
  return error ? error->what() : "";
}

}  // namespace course::test
