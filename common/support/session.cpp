#include "common/support/session.hpp"

#include <mpi.h>
#include <sched.h>

#include <iostream>

#include "common/comm/checked.hpp"
#include "common/comm/mpi_comm.hpp"
#include "common/support/cli.hpp"

namespace course {
namespace {

int64_t cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int64_t ranks_of_node() {
  MPI_Comm node;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int size = 1;
  MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  return size;
}

}  // namespace

Session::Session(int argc, char** argv) : argc_(argc), argv_(argv), timeout_(std::make_shared<double>(SessionOptions{}.timeout)) {
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  world_ = make_mpi_comm(MPI_COMM_WORLD, "world", timeout_);
  out_ = std::make_unique<std::ostream>(rank() == 0 ? std::cout.rdbuf() : nullptr);
}

Session::~Session() {
  world_.reset();
  board_.reset();
  backend_.reset();
  MPI_Finalize();
}

int Session::rank() const { return world_->rank(); }
int Session::size() const { return world_->size(); }

void Session::set_up(const SessionOptions& options) {
  *timeout_ = options.timeout;
  threads_ = options.threads > 0 ? options.threads : std::max<int64_t>(1, cores() / ranks_of_node());
  backend_ = options.device == "cuda" ? make_cuda_backend() : make_cpu_backend(static_cast<int>(threads_));
  if (options.check_collectives && !board_ && size() > 1) {
    board_ = std::make_shared<Board>(MPI_COMM_WORLD);
    world_ = make_checked(std::move(world_), MPI_COMM_WORLD, timeout_, board_);
  }
}

Backend& Session::backend() {
  require(backend_, "no device yet: call Cli::parse or Session::set_up first");
  return *backend_;
}

void Session::abort(const std::string& what) {
  std::cout.flush();
  const std::string line = cat("rank ", rank(), ": ", what);
  if (board_) {
    board_->threw();
    board_->say(line.c_str());
  } else {
    std::cerr << line << std::endl;
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

int run_program(int argc, char** argv, const std::function<void(Session&)>& body) {
  Session session(argc, argv);
  try {
    body(session);
    return 0;
  } catch (const EarlyExit& exit) {
    return exit.code;
  } catch (const SharedError& error) {
    if (session.rank() == 0) std::cerr << error.what() << std::endl;
    return dynamic_cast<const UsageError*>(&error) ? 2 : 1;
  } catch (const Error& error) {
    session.abort(cat(error.what(), " (", error.where(), ")"));
  } catch (const std::exception& error) {
    session.abort(error.what());
  }
}

void together(Comm& comm, const std::function<void()>& part, Site at) {
  std::string wrong;
  try {
    part();
  } catch (const std::exception& error) {
    wrong = *error.what() ? error.what() : "failed";
  }
  if (comm.max(wrong.empty() ? 0 : 1, at) == 0) return;
  const auto all = comm.all_gather_text(wrong, at);
  for (int r = 0; r < comm.size(); ++r)
    if (!all[r].empty()) throw SharedError(comm.size() > 1 ? cat("rank ", r, ": ", all[r]) : all[r]);
}

}  // namespace course
