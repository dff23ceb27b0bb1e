#include "common/support/last_words.hpp"

#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>

#include "common/check.hpp"

namespace course {
namespace {

constexpr int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal handler has no argument for it.
std::atomic<int> this_rank = -1;

const char* words_for(int signal) {
  switch (signal) {
    case SIGSEGV: return "SIGSEGV, memory that is not ours was touched";
    case SIGBUS: return "SIGBUS, memory that is not there was touched: a mapped file that shrank, or a full disk";
    case SIGFPE: return "SIGFPE, an integer was divided by zero";
    case SIGILL: return "SIGILL, an instruction that this processor does not know (built elsewhere with COURSE_NATIVE?)";
    case SIGABRT: return "SIGABRT, the program gave up";
  }
  return "a signal";
}

// Only what is allowed in a handler: no malloc, no stdio.
void on_fatal_signal(int signal) {
  char line[256] = "rank ";
  size_t n = std::strlen(line);
  const auto add = [&](const char* text) {
    while (*text && n < sizeof line - 1) line[n++] = *text++;
  };
  char digits[12];
  int at = sizeof digits - 1, rank = this_rank;
  digits[at] = 0;
  if (rank < 0) digits[--at] = '?';
  for (; rank > 0 || (rank == 0 && at == sizeof digits - 1); rank /= 10) digits[--at] = static_cast<char>('0' + rank % 10);
  add(digits + at);
  add(": ended by ");
  add(words_for(signal));
  add("\n");
  (void)!write(STDERR_FILENO, line, n);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void catch_fatal_signals() {
  if (dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init")) return;
  static char stack[64 * 1024];  // its own: a stack that ran over has no room for a handler
  const stack_t own = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (int signal : fatal_signals) sigaction(signal, &action, nullptr);
}

[[noreturn]] void on_terminate() {
  std::string what = "ended without an exception";
  if (const auto error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
      what = "out of memory (std::bad_alloc)";
    } catch (const Error& e) {
      what = cat(e.what(), " (", e.where(), ")");
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "an exception of unknown type";
    }
  }
  end_all_ranks(what);
}

}  // namespace

void speak_at_the_end(int rank) {
  this_rank = rank;
  std::set_terminate(on_terminate);
  catch_fatal_signals();
}

void end_all_ranks(const std::string& what) {
  // Should MPI_Abort not come back (it was called from a thread while another waits in MPI), this ends the process.
  std::signal(SIGALRM, SIG_DFL);
  alarm(5);
  std::cout.flush();
  const std::string line = cat("rank ", this_rank < 0 ? "?" : std::to_string(this_rank), ": ", what, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());  // in one piece, or the lines of two ranks may mix
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started && !ended) MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

}  // namespace course
