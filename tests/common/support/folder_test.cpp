// Folders that a program writes to: who holds one, and how much room there is.
#include "common/support/folder.hpp"

#include <fcntl.h>
#include <sched.h>
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
      Catch::Contains(cat("--save ", folder.path.string(), ": another run saves there, process ", getpid(), " on "));
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
  CHECK(fs::exists(folder.path / ".lock"));  // the file is left behind, the lock is not
  const FolderLock lock("--save", folder.path);
  CHECK(read_lock(folder.path).starts_with(cat("process ", getpid(), " on ")));
  close(ready[0]), close(ready[1]);
}

// Between a process's opening of the file and its locking the holder may let go, and the file with it: what is locked
// then is no longer the folder's.
TEST_CASE("processes that take a folder in turn never hold it at once") {
  const Folder folder;
  const std::string taken = folder.path / "taken";
  const auto take_turns = [&] {
    for (int turns = 0; turns < 400;) try {
        const FolderLock lock("--save", folder.path);
        const int file = open(taken.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (file < 0) return 1;
        close(file);
        unlink(taken.c_str());
        ++turns;
      } catch (const Error&) {
        sched_yield();
      }
    return 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) _exit(take_turns());
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("the room in a folder is told before anything is written") {
  const Folder folder;
  const std::string deep = folder.path / "not/yet/there";
  CHECK(free_bytes(folder.path) > 0);
  CHECK(free_bytes("/proc") == std::numeric_limits<int64_t>::max());  // it does not say
  CHECK_NOTHROW(require_free("--save", deep, 1, "a checkpoint"));
  CHECK_THROWS_WITH(require_free("--save", deep, int64_t{1} << 60, "a checkpoint"),
                    Catch::Contains("--save " + deep + ": a checkpoint takes 1.00 EiB, free there are "));
  CHECK_FALSE(fs::exists(folder.path / "not"));
}
