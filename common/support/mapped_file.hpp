// A file's bytes without reading them: the system brings a page in when it is first touched.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace course {

// Read-only and owned: unmapped by the destructor, spans die with it. Throws Error that names the path when it is
// missing, unreadable or no regular file. An empty file is fine. The file must not shrink while it is mapped.
class MappedFile {
 public:
  explicit MappedFile(std::string path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace course
