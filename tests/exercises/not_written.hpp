// What stands where a learner has not written yet.
#pragma once

#include "common/check.hpp"

namespace course {

struct NotWritten : SharedError {
  using SharedError::SharedError;
};

[[noreturn]] inline void not_written(const char* exercise) { throw NotWritten(cat(exercise, ": not written yet")); }

}  // namespace course
