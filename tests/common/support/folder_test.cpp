// Folders that a program writes to: who holds one, and how much room there is.
#include "common/support/folder.hpp"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/check.hpp"
#include "common/support/folder_lock.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/shared_folder.hpp"

using namespace course;
using namespace course::test;
namespace fs = std::filesystem;

namespace {

struct Folder : SharedFolder {
  Folder() { fs::create_directories(path); }
};

}  // namespace

TEST_CASE("a folder is held by one, who is named, until it lets go") {
  const Folder folder;
  const auto held =
      Catch::Contains(cat("--save ", folder.path, ": another run saves there, process ", getpid(), " on "));
  {
    const FolderLock lock("--save", folder.path);
    CHECK_THROWS_WITH(FolderLock("--save", folder.path), held);
    CHECK_THROWS_WITH(FolderLock("--save", folder.path), held);  // to ask does not take it away
    CHECK_THAT(read_lock(folder.path),
               Catch::StartsWith(cat("process ", getpid(), " on ")) && Catch::Contains(" since 20"));
  }
  CHECK(fs::is_empty(folder.path));
  CHECK(read_lock(folder.path) == "none");
  CHECK_NOTHROW(FolderLock("--save", folder.path));
}

TEST_CASE("a lock whose holder was killed is no obstacle") {
  const Folder folder;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock("--save", folder.path);
    static_cast<void>(!write(ready[1], "x", 1));
    while (true) pause();
  }
  char byte = 0;
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_WITH(FolderLock("--save", folder.path), Catch::Contains(cat("process ", child, " on ")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(fs::exists(folder.path + "/.lock"));  // the file is left behind, the lock is not
  const FolderLock lock("--save", folder.path);
  CHECK(read_lock(folder.path).starts_with(cat("process ", getpid(), " on ")));
  close(ready[0]), close(ready[1]);
}

TEST_CASE("whoever opened a lock's file before it was removed does not take it for the folder's") {
  const Folder folder;
  auto first = std::make_unique<FolderLock>("--save", folder.path);
  fs::remove(folder.path + "/.lock");  // as if another had let go between its opening and its locking
  const FolderLock second("--save", folder.path);
  CHECK_THROWS_WITH(FolderLock("--save", folder.path), Catch::Contains("another run"));
}

TEST_CASE("the room in a folder is told before anything is written") {
  const Folder folder;
  const std::string deep = folder.path + "/not/yet/there";
  CHECK(free_bytes(folder.path) > 0);
  CHECK(free_bytes("/proc") == std::numeric_limits<int64_t>::max());  // it does not say
  CHECK_NOTHROW(require_free("--save", deep, 1, "a checkpoint"));
  CHECK_THROWS_WITH(require_free("--save", deep, int64_t{1} << 60, "a checkpoint"),
                    Catch::Contains("--save " + deep + ": a checkpoint takes 1.00 EiB, free there are "));
  CHECK_FALSE(fs::exists(folder.path + "/not"));
}
