#include "common/support/session.hpp"

#include <mpi.h>
#include <sched.h>

#include <iostream>
#include <new>

#include "common/comm/mpi_comm.hpp"
#include "common/support/cli.hpp"
#include "common/support/last_words.hpp"

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
  speak_at_the_end(-1);
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  world_ = make_mpi_comm(MPI_COMM_WORLD, "world", timeout_);
  speak_at_the_end(rank());  // again: MPI's libraries bring handlers of their own
  out_ = std::make_unique<std::ostream>(rank() == 0 ? std::cout.rdbuf() : nullptr);
}

Session::~Session() {
  world_.reset();
  backend_.reset();
  MPI_Finalize();
}

int Session::rank() const { return world_->rank(); }
int Session::size() const { return world_->size(); }

void Session::set_up(const SessionOptions& options) {
  *timeout_ = options.timeout;
  threads_ = options.threads > 0 ? options.threads : std::max<int64_t>(1, cores() / ranks_of_node());
  backend_ = options.device == "cuda" ? make_cuda_backend() : make_cpu_backend(static_cast<int>(threads_));
}

Backend& Session::backend() {
  require(backend_, "no device yet: call Cli::parse or Session::set_up first");
  return *backend_;
}

void Session::abort(const std::string& what) { end_all_ranks(what); }

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
  } catch (const std::bad_alloc&) {
    session.abort("out of memory (std::bad_alloc)");
  } catch (const std::exception& error) {
    session.abort(error.what());
  } catch (...) {
    session.abort("an exception of unknown type");
  }
}

void together(Comm& comm, const std::function<void()>& part) {
  std::string wrong;
  try {
    part();
  } catch (const std::bad_alloc&) {
    wrong = "out of memory (std::bad_alloc)";
  } catch (const std::exception& error) {
    wrong = *error.what() ? error.what() : "failed";
  }
  if (comm.max(wrong.empty() ? 0 : 1) == 0) return;
  const auto all = comm.all_gather_text(wrong);
  for (int r = 0; r < comm.size(); ++r)
    if (!all[r].empty()) throw SharedError(comm.size() > 1 ? cat("rank ", r, ": ", all[r]) : all[r]);
}

}  // namespace course
