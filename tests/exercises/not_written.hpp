// What stands where a learner has not written yet.
#pragma once

#include "common/check.hpp"

namespace course {

inline constexpr const char* kNotWritten = ": not written yet";

[[noreturn]] inline void not_written(const char* exercise) { throw SharedError(cat(exercise, kNotWritten)); }

}  // namespace course
