// What a rank says when it ends otherwise than by returning: an exception, std::terminate, a fatal signal.
#pragma once

#include <cstdint>
#include <exception>
#include <source_location>
#include <string>

namespace course {

// From now on, until the process ends:
//   std::terminate (an exception that left a thread, or a destructor) says `rank R: what` and ends every rank.
//   exit() before ends_in_order() does the same.
//   SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT say `rank R: signal, where` and end this process by that signal; the
//   launcher ends the others. MPI_Abort is no function for a signal handler: the fault may lie inside MPI or malloc.
// A sanitizer keeps its own handlers. `rank` -1: not known yet. Called again once MPI has said it.
//
// COURSE_RANKS_FOLDER names a folder, as ./course does. The rank holds the FIFO of its number open there, and adds
// lines to the file `said`: `rank process host` at the start; `rank ended` before an end in order, or by a signal;
// `rank ends all`. A FIFO that is closed without a word is that of a rank that was killed (tools/course_ranks.py).
void speak_at_the_end(int rank);
void ends_in_order();

// Who has more to say than a line, or nobody (null): given the cause, it says it and what every rank does, and gives true;
// false leaves it to the line. Called in signal handlers too.
void speak_through(bool (*say)(const char* cause));

// Notes what this rank is at, for the line of a fatal signal. A few stores, so that every call may.
void note_step(int64_t step);
void note_collective(const char* name, std::source_location at);

// What an exception says, in a line. The current one, of whatever type, with the line that threw it where it knows.
std::string words_of(const std::exception& error);
std::string words_of_current_exception();

// Says `rank R: what` on stderr and ends every rank at once, with exit code 1. From any thread.
[[noreturn]] void end_all_ranks(const std::string& what);

}  // namespace course
