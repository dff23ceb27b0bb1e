// A program's time on its ranks: owns MPI, the device and the world. The first local of main, so the last to go.
//
//   int main(int argc, char** argv) {
//     return course::run_program(argc, argv, [](course::Session& session) { ... });
//   }
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "common/backend/observed.hpp"
#include "common/comm/comm.hpp"
#include "common/support/trace.hpp"

namespace course {

class Board;
class Checked;

struct SessionOptions {
  std::string device = "auto";
  int64_t threads = 0;  // a rank; 0: cores of the node / ranks of the node, at least 1
  double timeout = 60;  // seconds; 0: none
  std::string trace;    // a file, see trace.hpp; empty: none
  bool check_collectives = false;  // see checked.hpp
  std::string nccl = "auto";       // auto: where each rank has a GPU of its own; shared: also where they share one; off
  bool tf32 = false;  // see make_cuda_backend(); on the CPU a line says that it does nothing
};

class Session {
 public:
  Session(int argc, char** argv);  // MPI_Init; errors return instead of ending the program
  ~Session();                      // MPI_Finalize, in order; a rank that does not come ends all after the time limit
  Session(const Session&) = delete;

  int argc() const { return argc_; }
  char** argv() const { return argv_; }
  int rank() const;
  int size() const;
  Comm& world() { return *world_; }

  // Makes the backend; from here on the world's calls are checked where that is asked for. Cli::parse calls it.
  // Collective.
  void set_up(const SessionOptions& options);
  // Its first call says, on rank 0's stderr, that a node has more ranks than cores, where it has.
  Backend& backend();
  bool has_bf16();  // whether the devices of all ranks compute well in bf16. Collective
  int64_t threads() const { return threads_; }
  // Bytes that the nodes of all ranks have together, the same number on every rank. 0 before set_up.
  double memory() const { return memory_; }

  // Watching begins with the first call, which comes right after Cli::parse: what has taken backend() or world() before is
  // not seen. Throws when backend() was taken already.
  ObservedBackend& observed();                             // for who wants to hear of kernels
  Activity& watch();                                       // of kernels and of world()'s collectives
  Activity* activity() const { return activity_.get(); }  // null unless watched

  // Writes the trace where one is asked for; where calls are checked, waits until all ranks are here. Collective;
  // run_program calls it when the body is through.
  void finish();

  // Prints on rank 0, nowhere on the others.
  std::ostream& out() { return *out_; }

  // For a rank that is about to end on a fault that all are thought to see. True once all are here for that. False when some
  // did not come within seconds, or came without a fault: then it is this rank's alone. Collective.
  bool leave_together();

  // Ends every rank at once, after saying `rank R: what` on stderr; where calls are checked, with what each rank does.
  [[noreturn]] void abort(const std::string& what);

 private:
  struct Node;
  // Each rank has a backend of a GPU, this one that of `device`. True: their world is NCCL's now.
  bool connect_gpus(const std::string& nccl, int device, const Node& node);

  int argc_;
  char** argv_;
  std::shared_ptr<double> timeout_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<Backend> backend_;
  ObservedBackend* observed_ = nullptr;  // is backend_
  bool taken_ = false;
  std::shared_ptr<Board> board_;  // null unless calls are checked, as checked_, which is in world_
  Checked* checked_ = nullptr;
  std::unique_ptr<Comm> host_;              // what NCCL's world leaves to MPI; null without NCCL
  std::unique_ptr<Comm> world_, farewell_;  // farewell_: who is through, and nothing else, so that it never mixes with calls
  std::unique_ptr<std::ostream> out_;
  int64_t threads_ = 1, ranks_of_node_ = 1;
  double memory_ = 0;
  bool set_out_ = false;  // something was computed
  bool left_ = false;     // all ranks have said farewell
};

// Runs the body and turns what it throws into a line and an exit code: 0 right, 1 failed, 2 wrong usage. A SharedError is
// said once, by rank 0, and all ranks end in order; any other exception ends all ranks, and so does a SharedError that
// only some ranks throw, an exception that leaves a thread, or a fatal signal (last_words.hpp).
int run_program(int argc, char** argv, const std::function<void(Session&)>& body);

// Runs `part` on every rank. If it throws on any, all ranks throw with the words of the lowest that failed: for files,
// which one rank may miss. A UsageError stays one; anything else becomes a SharedError, which names the rank unless all
// say the same.
void together(Comm& comm, const std::function<void()>& part, Site at = Site::current());

// Throws UsageError unless the nodes can hold `bytes`, counted over all ranks: `what` is needed at the least, its flags
// named. Before a size is tried that would end the program, or the machine.
void require_room(Session& session, double bytes, const std::string& what);

}  // namespace course
