// A folder that all ranks of a test write to.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "tests/support/ranks.hpp"

namespace course::test {

// Named by rank 0, known to all, not made; gone at the end with all that is in it. Collective.
struct SharedFolder {
  std::filesystem::path path =
      world().broadcast_text((std::filesystem::temp_directory_path() / cat("course_test_", getpid())).string(), 0);

  SharedFolder() = default;
  SharedFolder(const SharedFolder&) = delete;
  ~SharedFolder() noexcept(false) {
    change([this] { std::filesystem::remove_all(path); });
  }
  // Rank 0 does something to the files, the others wait.
  void change(const std::function<void()>& how) const {
    world().barrier().wait();
    if (world().rank() == 0) how();
    world().barrier().wait();
  }
};

}  // namespace course::test
