// What the emulation needs of the processor: another stack, and what an access was that the processor refused. One source
// for each kind, CMake takes one: machine_x86_64.cpp, or machine_other.cpp with what every system has.
#pragma once

#include <cstddef>

namespace course::emulate {

// Where begin(), which must not return, starts on the stack of so many bytes at `stack`.
void* prepare_stack(char* stack, size_t bytes, void (*begin)());
// Leaves off here, puts the place into `here`, and goes on at `there`. Returns when somebody switches to *here.
void switch_stack(void** here, void* there);

// "reads" or "writes", by what a SIGSEGV's handler gets as its third argument; "touches" where the processor does not say.
const char* refused_access(const void* signal_context);

}  // namespace course::emulate
