// What every rank of a node is doing, in memory that all of them read: the last call it completed, the oldest it is in,
// and since when. A rank in an endless loop cannot say where it is; whoever finds the hang reads it here and says one
// line a rank (each is one line, cut here):
//
//   rank 0: last call 7 all-reduce of 48 bytes on tp (mlp.cpp:40),
//           pending call 8 all-reduce of 48 bytes on tp (mlp.cpp:44), waiting for 5.0 s
//   rank 1: last call 7 all-reduce of 48 bytes on tp (mlp.cpp:40), pending none, computing for 5.1 s
//
// A call's number counts the calls on its group. The memory is POSIX shared memory whose name is gone once all ranks
// have it open, so nothing is left behind however the ranks end. Ranks of other nodes are not seen.
//
// Whatever else ends the process, an exit() too, is said through it (last_words.hpp); SIGKILL and _exit() leave no time for
// words.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

// One call, as it is shown.
struct Noted {
  int64_t number;    // on its group, from 1
  const char* what;  // "all-reduce"; lives as long as the program
  int64_t bytes;
  int peer;  // a broadcast's root, a message's other end, as a rank of the world; -1: none
  const std::string& axis;
  Site at;
};

class Board {
 public:
  explicit Board(MPI_Comm world);  // collective; throws SharedError where there is no shared memory
  ~Board();                        // this rank has ended in order
  Board(const Board&) = delete;

  // Of this rank. begin() gives the number by which end() knows the call.
  int64_t begin(const Noted& call);
  void end(int64_t call);
  void seen();          // it asks for a call that is not complete
  void comes_to_end();  // it makes no further call

  // True if that rank is of this node and has come to its end.
  bool has_ended(int world_rank) const;

  // Says the heading, unless it is empty, and then one line a rank on stderr: once in the life of the job, whoever
  // comes first. Others wait until it is said.
  void say(const char* heading);
  // The same without a heading: `why` leads this rank's own line.
  void say_last_words(const char* why);

 private:
  struct Row;
  struct Memory;
  struct Open;
  void show_pending();

  Memory* memory_ = nullptr;
  Row* mine_ = nullptr;
  std::vector<Open> open_;  // this rank's calls under way, oldest first
  std::vector<char> text_;
  int64_t begun_ = 0;
  int world_size_ = 0, node_size_ = 0;
  size_t bytes_ = 0;
};

}  // namespace course
