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

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

class Board;

struct SessionOptions {
  std::string device = "auto";
  int64_t threads = 0;  // a rank; 0: cores of the node / ranks of the node, at least 1
  double timeout = 60;  // seconds; 0: none
  bool check_collectives = false;  // common/comm/checked.hpp
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

  // Makes the backend, and checks the world's calls from here on if asked to. Collective. Cli::parse calls it.
  void set_up(const SessionOptions& options);
  Backend& backend();
  int64_t threads() const { return threads_; }

  // Prints on rank 0, nowhere on the others.
  std::ostream& out() { return *out_; }

  // Ends every rank at once, after saying `rank R: what` on stderr; with --check-collectives, a line of every rank after it.
  [[noreturn]] void abort(const std::string& what);

 private:
  int argc_;
  char** argv_;
  std::shared_ptr<double> timeout_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Board> board_;  // with --check-collectives
  std::unique_ptr<Comm> world_;
  std::unique_ptr<std::ostream> out_;
  int64_t threads_ = 1;
};

// Runs the body and turns what it throws into a line and an exit code: 0 right, 1 failed, 2 wrong usage. A SharedError is
// said once, by rank 0; any other ends all ranks.
int run_program(int argc, char** argv, const std::function<void(Session&)>& body);

// Runs `part` on every rank. If it throws on any, all ranks throw SharedError with the words of the lowest that failed: for
// files, which one rank may miss.
void together(Comm& comm, const std::function<void()>& part, Site at = Site::current());

}  // namespace course
