// What a rank says when it ends in a way that no catch sees: an exception in a thread of its own, a fatal signal.
#pragma once

#include <string>

namespace course {

// From now on, until the process ends:
//   std::terminate (an exception that left a thread, or a destructor) says `rank R: what` and ends every rank.
//   SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT say `rank R: signal` and end this process by that signal; the launcher
//   ends the others. MPI_Abort is no function for a signal handler: the fault may lie inside MPI or malloc.
// A sanitizer keeps its own handlers. `rank` -1: not known yet. Called again with the rank once MPI has said it.
void speak_at_the_end(int rank);

// Says `rank R: what` on stderr and ends every rank at once, with exit code 1. From any thread.
[[noreturn]] void end_all_ranks(const std::string& what);

}  // namespace course
