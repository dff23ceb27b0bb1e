// Runs the blocks of a grid one after another, the threads of a block as fibers in turns. A thread runs until it comes to a
// barrier or a shuffle, so the order of turns is all there is of chance: forward, backward, or drawn from a seed. A kernel
// that forgets a __syncthreads is right in one of them and wrong in another.
//
// COURSE_EMULATE_ORDER is forward, backward, or a number to draw from (the default is 1). Blocks follow the same order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

namespace course::emulate {

// What each thread does.
struct Body {
  void (*run)(void*);
  void* with;
};

inline constexpr size_t shared_memory_bytes = 227 << 10;  // of a block at the most; compute capability 9.0

// "" or what went wrong: a barrier that not all threads reached, a shuffle without all its lanes, an address that no
// argument of the kernel covers, a write past the shared memory asked for. The rest of the grid does not run then.
std::string run_grid(dim3 grid, dim3 block, size_t shared_bytes, Body body);

// Ends the kernel that runs here, from a signal handler: run_grid returns `why`, which must stay alive. Does not return.
[[noreturn]] void end_kernel(const char* why);
bool in_kernel();

}  // namespace course::emulate
