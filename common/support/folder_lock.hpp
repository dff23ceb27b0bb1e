// One run at a time writes to a folder. The lock is the process's: when it ends, however it ends, the system takes the
// lock back, so a run that was killed leaves no obstacle. flock(2)
#pragma once

#include <string>

namespace course {

class FolderLock {
 public:
  // Locks `dir`, which is there, with a file DIR/.lock that says who holds it. Throws Error, which begins with `flag`
  // and the folder: where another run holds it, with its process, host and beginning, and where the file cannot be
  // made. A file system without locks is said in a note on stderr, and the folder is not locked then.
  FolderLock(const std::string& flag, const std::string& dir);
  ~FolderLock();  // the file goes too
  FolderLock(const FolderLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

// What DIR/.lock says, as this process sees the folder; "none" where there is no such file. A rank that reads other
// words than the one that locked is looking at another disk.
std::string read_lock(const std::string& dir);

}  // namespace course
