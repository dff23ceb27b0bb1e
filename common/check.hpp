// One way to fail: a precondition is code, and its message carries the values.
//
//   require(x.dim(2) == I, "Linear: X has ", x.dim(2), " features, W has ", I);
//
// The words after the condition are joined only when it is false, so a check costs a branch.
#pragma once

#include <cstring>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace course {

// Joins anything that prints: cat("rank ", 2) is "rank 2".
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "linear.cpp" of a path. A signal handler may call it.
inline const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}
// "linear.cpp:12"
inline std::string place_of(const std::source_location& at) { return cat(file_name(at.file_name()), ":", at.line()); }

// A broken precondition. what() is one line for a person; where() is "file.cpp:12" for whoever mends it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, std::source_location at = std::source_location::current())
      : std::runtime_error(what), at_(at) {}
  std::string where() const { return place_of(at_); }

 private:
  std::source_location at_;
};

// A fault that every rank sees alike (a missing file read by all, a shape in a config): rank 0 says it, all end in order.
class SharedError : public Error {
 public:
  explicit SharedError(const std::string& what, std::source_location at = std::source_location::current())
      : Error(what, at) {}  // not `using Error::Error`: nvcc 13.0 breaks on an inherited default argument of this kind
};

// Wrong words on the command line. Every rank sees it alike; the program ends with exit code 2.
class UsageError : public SharedError {
 public:
  explicit UsageError(const std::string& what, std::source_location at = std::source_location::current())
      : SharedError(what, at) {}
};

[[noreturn]] inline void fail(const std::string& what, std::source_location at = std::source_location::current()) {
  throw Error(what, at);
}

// A condition and the line it stands on.
struct Condition {
  bool holds;
  std::source_location at;
  template <typename T>
  Condition(const T& value, std::source_location where = std::source_location::current())  // NOLINT: implicit on purpose
      : holds(static_cast<bool>(value)), at(where) {}
};

// Throws Error with the joined parts unless the condition holds.
template <typename... Parts>
void require(Condition condition, const Parts&... parts) {
  if (!condition.holds) throw Error(cat(parts...), condition.at);
}

// The same for a fault that every rank is known to see.
template <typename... Parts>
void require_shared(Condition condition, const Parts&... parts) {
  if (!condition.holds) throw SharedError(cat(parts...), condition.at);
}

// The same for flags and their values.
template <typename... Parts>
void require_usage(Condition condition, const Parts&... parts) {
  if (!condition.holds) throw UsageError(cat(parts...), condition.at);
}

}  // namespace course
