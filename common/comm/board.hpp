// What every rank of a node is doing, in memory that all of them read: the last call it completed, the oldest it is in,
// and since when. A rank in an endless loop cannot say where it is; whoever finds the hang reads it here and says one
// line a rank:
//
//   rank 0: last call 7 all-reduce of 48 bytes on tp (mlp.cpp:40), pending: call 8 all-reduce of 48 bytes on tp
//   (mlp.cpp:40), waiting for 5.0 s rank 1: last call 7 all-reduce of 48 bytes on tp (mlp.cpp:40), pending: none,
//   computing for 5.1 s
//
// A call's number counts the calls on its group. The memory is POSIX shared memory whose name is gone once all ranks
// have it open, so nothing is left behind however the ranks end. Ranks of other nodes are not seen.
//
// While a Board lives, a rank that calls exit() or dies of SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT says the lines
// before it goes (mpirun then kills the others at once). SIGKILL and _exit() leave no time for that.
#pragma once

#include <mpi.h>

#include <source_location>
#include <string>
#include <vector>

namespace course {

// One call, as it is shown.
struct Noted {
  int64_t number;    // on its group, from 1
  const char* what;  // "all-reduce"; lives as long as the program
  int64_t bytes;
  const std::string& axis;
  std::source_location at;
};

// "linear.cpp" of a path.
const char* file_of(const std::source_location& at);

class Board {
 public:
  explicit Board(MPI_Comm world);  // collective; throws Error where there is no shared memory
  ~Board();                        // this rank has ended in order
  Board(const Board&) = delete;

  // Of this rank. begin() gives the number by which end() knows the call.
  int64_t begin(const Noted& call);
  void end(int64_t call);
  void seen();   // it asks for a call that is not complete
  void threw();  // it ends with an exception

  // True if that rank is of this node and its Board is gone, or it has called exit().
  bool has_ended(int world_rank) const;

  // Says `first` and then one line a rank on stderr: once in the life of the job, whoever comes first. Returns false to
  // those who come later, when it has been said. Safe in a signal handler.
  bool say(const char* first);

 private:
  struct Call;
  struct Row;
  struct Memory;
  struct Open;
  static void on_exit();
  static void on_signal(int signal);
  void show_pending();

  Memory* memory_ = nullptr;
  Row* mine_ = nullptr;
  std::vector<Open> open_;  // this rank's calls under way, oldest first
  std::vector<char> text_;
  int64_t begun_ = 0;
  int rank_ = 0, world_size_ = 0, node_size_ = 0, pid_ = 0;
  size_t bytes_ = 0;
};

}  // namespace course
