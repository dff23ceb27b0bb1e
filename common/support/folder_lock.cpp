#include "common/support/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <iostream>

#include "common/check.hpp"

namespace course {
namespace {

std::string this_process() {
  char host[256] = {}, since[32] = {};
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(since, sizeof since, "%F %T UTC", &utc);
  return cat("process ", getpid(), " on ", host, " since ", since);
}

std::string read_line(int file) {
  char text[512];
  const ssize_t size = pread(file, text, sizeof text, 0);
  const std::string all(text, size > 0 ? static_cast<size_t>(size) : 0);
  return all.substr(0, all.find('\n'));
}

bool is_at(int file, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(file, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

}  // namespace

FolderLock::FolderLock(const std::string& flag, const std::string& dir) : path_(dir + "/.lock") {
  int file = -1;
  while (true) {
    file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(file >= 0, flag, " ", dir, ": cannot be locked: ", std::strerror(errno));
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      const std::string holder = reason == EWOULDBLOCK ? read_line(file) : "";
      if (reason == EWOULDBLOCK) close(file);
      require(reason != EWOULDBLOCK, flag, " ", dir, ": another run saves there",
              holder.empty() ? "" : cat(", ", holder), "; let it end first, or save elsewhere");
      std::cerr << cat("note: ", flag, " ", dir, ": not locked (", std::strerror(reason),
                       "): let no other run save there\n");
      break;
    }
    if (is_at(file, path_)) break;
    close(file);  // who held it removed the file meanwhile: what we locked is no longer the folder's
  }
  file_ = file;
  const std::string line = this_process() + "\n";  // a disk that is full has a lock too, and nothing in it
  if (ftruncate(file_, 0) == 0 && pwrite(file_, line.data(), line.size(), 0) > 0) fdatasync(file_);
}

FolderLock::~FolderLock() {
  unlink(path_.c_str());  // before the lock goes: whoever opened this file will see that it is not there any more
  close(file_);
}

std::string read_lock(const std::string& dir) {
  const int file = open((dir + "/.lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "none";
  const std::string line = read_line(file);
  close(file);
  return line;
}

}  // namespace course
