#include "common/last_words.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <new>
#include <stdexcept>
#include <thread>

#include "common/check.hpp"
#include "common/handler_safe_line.hpp"
#include "common/signal_stack.hpp"

namespace course {
namespace {

// A signal handler has no argument for these.
std::atomic<int> this_rank = -1;
std::atomic<int> witness = -1;      // where this rank signs in and tells of its end
std::atomic<bool> running = false;  // from signing in to an end in order
std::atomic<bool> ending = false;   // a fault ends it
std::atomic<bool (*)(const char*)> speaker = nullptr;
std::atomic<int64_t> step = 0;
std::atomic<const char*> collective = nullptr, file = "";
std::atomic<int64_t> line_of_file = 0;

const char* words_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV, it touched memory that it does not own";
    case SIGBUS:
      return "SIGBUS, it touched memory that is not there: a mapped file that shrank, or a full disk";
    case SIGFPE:
      return "SIGFPE, it divided an integer by zero";
    case SIGILL:
      return "SIGILL, it met an instruction that this processor does not know, or gave up";
    case SIGABRT:
      return "SIGABRT, it gave up";
  }
  return "a signal";
}

void tell_witness(const char* words) {
  if (witness < 0) return;
  char room[400];
  (HandlerSafeLine(room, sizeof room) << int64_t{this_rank} << " " << words << "\n").write(witness);
}

// `rank R: cause`, and the last collective.
void say_line(const char* cause) {
  char room[600];
  HandlerSafeLine line(room, sizeof room);
  line << "rank ";
  if (this_rank < 0)
    line << "?";
  else
    line << int64_t{this_rank};
  line << ": " << cause;
  if (collective) line << "; its last collective: " << collective << " (" << file_name(file) << ":" << line_of_file << ")";
  (line << "\n").write(STDERR_FILENO);
}

void on_fatal_signal(int signal) {
  if (ending) _exit(1);  // while it ends, the cause has been said
  // A rank that reads from one that is gone is ended by UCX, with SIGABRT. The launcher ends it too, within this moment, and
  // the cause was not here.
  const timespec moment = {0, 300'000'000};
  nanosleep(&moment, nullptr);
  char room[300];
  HandlerSafeLine cause(room, sizeof room);
  cause << "ended by " << words_of_signal(signal);
  if (step > 0) cause << "; in step " << step;
  if (const auto say = speaker.load(); !say || !say(cause.text())) say_line(cause.text());
  tell_witness("ended");
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void catch_fatal_signals() {
  if (dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init")) return;  // a sanitizer keeps its own
  have_signal_stack();  // a stack that ran over has no room for a handler
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

// UCX, which MPICH may stand on, prints a stack of forty lines when a rank that it reads from is gone. It reads its
// settings before main.
void keep_stacks_of_ucx_away() {
  using SetValue = int (*)(const char* name, const char* value);
  const auto set_value = reinterpret_cast<SetValue>(dlsym(RTLD_DEFAULT, "ucs_global_opts_set_value"));
  if (set_value) set_value("HANDLE_ERRORS", "none");
}

void sign_in(int rank) {
  const char* folder = std::getenv("COURSE_RANKS_FOLDER");
  if (!folder || rank < 0) return;
  // Held until the process is gone. To read as well, or the open would wait for who reads it.
  (void)!open(cat(folder, "/", rank).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  witness = open(cat(folder, "/said").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  tell_witness(cat(getpid(), " ", host).c_str());
}

[[noreturn]] void on_terminate() {
  end_all_ranks(std::current_exception() ? words_of_current_exception() : "terminate() was called");
}

}  // namespace

void speak_at_the_end(int rank) {
  this_rank = rank;
  if (rank >= 0 && !running.exchange(true))
    std::atexit([] {
      if (running && !ending) end_all_ranks("exit() was called in the middle of the run");
    });
  std::set_terminate(on_terminate);
  catch_fatal_signals();
  keep_stacks_of_ucx_away();
  sign_in(rank);
}

void ends_in_order() {
  tell_witness("ended");
  running = false;
}

void speak_through(bool (*say)(const char* cause)) { speaker = say; }

void note_step(int64_t number) { step.store(number, std::memory_order_relaxed); }

void note_collective(const char* name, std::source_location at) {
  collective.store(name, std::memory_order_relaxed);
  file.store(at.file_name(), std::memory_order_relaxed);
  line_of_file.store(at.line(), std::memory_order_relaxed);
}

// What a standard exception says of itself names no cause.
std::string words_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "out of memory";
  if (dynamic_cast<const std::length_error*>(&error)) return cat("a size that no memory can hold (", error.what(), ")");
  return *error.what() ? error.what() : "failed";
}

std::string words_of_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return cat(error.what(), " (", error.where(), ")");
  } catch (const std::exception& error) {
    return words_of(error);
  } catch (...) {
    return "an exception of a type that has no words";
  }
}

void end_all_ranks(const std::string& what) {
  if (ending.exchange(true))  // another thread of this rank is at it
    for (;;) pause();
  std::signal(SIGALRM, SIG_DFL);
  alarm(5);  // ends this process should MPI_Abort not come back: another thread may be inside MPI
  std::cout.flush();
  if (const auto say = speaker.load(); !say || !say(what.c_str())) {
    const std::string line = cat("rank ", this_rank < 0 ? "?" : std::to_string(this_rank), ": ", what, "\n");
    (void)!write(STDERR_FILENO, line.data(), line.size());        // in one piece: the other ranks may be writing too
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // MPICH's launcher drops what it has not read by then
  }
  // Only now: if this fault came of another rank's death, the launcher has ended this rank too by here.
  tell_witness("ends all");
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started && !ended) MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

}  // namespace course
