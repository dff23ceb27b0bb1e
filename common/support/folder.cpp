#include "common/support/folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/check.hpp"
#include "common/support/table.hpp"

namespace course {

namespace fs = std::filesystem;

void make_writable_folder(const std::string& flag, const std::string& dir) {
  std::error_code error;
  require(!fs::exists(dir, error) || fs::is_directory(dir), flag, " ", dir, ": is no folder, a file has that name");
  fs::create_directories(dir, error);
  require(fs::is_directory(dir), flag, " ", dir, ": cannot be made: ", error.message());
  const fs::path probe = fs::path(dir) / ".writable";
  errno = 0;
  const bool written = static_cast<bool>(std::ofstream(probe).put('x').flush());
  const int why = errno;
  fs::remove(probe, error);
  require(written, flag, " ", dir, ": cannot be written: ", std::strerror(why));
}

int64_t free_bytes(const std::string& dir) {
  std::error_code error;
  fs::path at = fs::absolute(dir, error);
  while (!fs::is_directory(at, error) && at.has_relative_path()) at = at.parent_path();
  const fs::space_info space = fs::space(at, error);
  constexpr auto most = std::numeric_limits<int64_t>::max();
  return error || space.capacity == 0 || space.available > static_cast<uintmax_t>(most) ? most : static_cast<int64_t>(space.available);
}

void require_free(const std::string& flag, const std::string& dir, int64_t bytes, const std::string& what) {
  const int64_t free = free_bytes(dir);
  require(free >= bytes, flag, " ", dir, ": ", what, " takes ", human_bytes(bytes), ", free there are ",
          human_bytes(free));
}

}  // namespace course
