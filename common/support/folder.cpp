#include "common/support/folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/check.hpp"

namespace course {

namespace fs = std::filesystem;

void make_writable_folder(const std::string& flag, const std::string& dir) {
  std::error_code error;
  require(!fs::exists(dir, error) || fs::is_directory(dir), flag, " ", dir, ": is no folder, a file has that name");
  fs::create_directories(dir, error);
  require(fs::is_directory(dir), flag, " ", dir, ": cannot be made: ", error.message());
  const fs::path probe = fs::path(dir) / ".writable";
  errno = 0;
  require(std::ofstream(probe).put('x').flush(), flag, " ", dir, ": cannot be written: ", std::strerror(errno));
  fs::remove(probe);
}

}  // namespace course
