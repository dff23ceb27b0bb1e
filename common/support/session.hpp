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

struct SessionOptions {
  std::string device = "auto";
  int64_t threads = 0;  // a rank; 0: cores of the node / ranks of the node, at least 1
  double timeout = 60;  // seconds; 0: none
  std::string trace;    // a file, see trace.hpp; empty: none
};

class Session {
 public:
  Session(int argc, char** argv);  // MPI_Init; errors return instead of ending the program
  ~Session();                      // MPI_Finalize, in order
  Session(const Session&) = delete;

  int argc() const { return argc_; }
  char** argv() const { return argv_; }
  int rank() const;
  int size() const;
  Comm& world() { return *world_; }

  // Makes the backend. Cli::parse calls it.
  void set_up(const SessionOptions& options);
  Backend& backend();
  int64_t threads() const { return threads_; }

  // Watching begins with the first call, which comes right after Cli::parse: what has taken backend() or world() before is
  // not seen. Throws when backend() was taken already.
  ObservedBackend& observed();                             // for who wants to hear of kernels
  Activity& watch();                                       // of kernels and of world()'s collectives
  Activity* activity() const { return activity_.get(); }  // null unless watched

  // Writes the trace where one is asked for. Collective; run_program calls it when the body is through.
  void finish();

  // Prints on rank 0, nowhere on the others.
  std::ostream& out() { return *out_; }

  // Ends every rank at once, after saying `rank R: what` on stderr.
  [[noreturn]] void abort(const std::string& what);

 private:
  int argc_;
  char** argv_;
  std::shared_ptr<double> timeout_;
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<Backend> backend_;
  ObservedBackend* observed_ = nullptr;  // is backend_
  bool taken_ = false;
  std::unique_ptr<Comm> world_;
  std::unique_ptr<std::ostream> out_;
  int64_t threads_ = 1;
};

// Runs the body and turns what it throws into a line and an exit code: 0 right, 1 failed, 2 wrong usage. A SharedError is
// said once, by rank 0; any other ends all ranks.
int run_program(int argc, char** argv, const std::function<void(Session&)>& body);

// Runs `part` on every rank. If it throws on any, all ranks throw SharedError with the words of the lowest that failed: for
// files, which one rank may miss.
void together(Comm& comm, const std::function<void()>& part);

}  // namespace course
