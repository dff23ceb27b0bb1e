#include "common/support/write_aside.hpp"

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "common/check.hpp"

namespace course {

void write_aside(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write) {
  const std::filesystem::path aside = cat(path.string(), ".", getpid(), ".part");  // two programs may write one file
  std::ofstream file(aside, std::ios::binary);
  write(file);
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(aside, path, error);
  if (file && !error) return;
  std::error_code ignored;
  std::filesystem::remove(aside, ignored);
  fail(cat(path.string(), ": cannot be written", error ? ": " + error.message() : ""));
}

void write_aside(const std::filesystem::path& path, const std::string& text) {
  write_aside(path, [&](std::ostream& out) { out << text; });
}

}  // namespace course
