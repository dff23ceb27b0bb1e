// Starts a kernel. The one way in which this project does: the same line runs on a GPU and on the emulation.
//
//   launch(scale_kernel, blocks_for(n), kThreads, 0, stream, x, n, factor);
//
// A kernel's pointers say what it does with memory: `const T*` is read, `T*` is written (and may be read). The emulation
// holds a kernel to it, and to the arguments: it may touch no other device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <tuple>
#include <utility>

#include "common/backend/cuda/check.hpp"

namespace course::cuda {

// How many blocks, and the line that starts them. Throws Error where a card has no room for so many in a row.
struct Grid {
  dim3 blocks;
  std::source_location at;
  Grid(int64_t x, std::source_location where = std::source_location::current())  // NOLINT: implicit on purpose
      : Grid(x, 1, 1, where) {}
  Grid(int64_t x, int64_t y, int64_t z = 1, std::source_location where = std::source_location::current())
      : blocks(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)), at(where) {
    if (x > 0x7fffffff || y > 65535 || z > 65535)
      throw Error(cat("a kernel on ", x, " by ", y, " by ", z, " blocks; a GPU takes 2147483647 by 65535 by 65535"), where);
  }
};

// Threads of a block for kernels that do the same to every element.
inline constexpr int kThreads = 256;
// Blocks that give each of n elements a thread, at most so many that the card is full several times over: the kernels
// stride over what is left.
inline int64_t blocks_for(int64_t n) {
  constexpr int64_t most = 4096;
  const int64_t needed = (n + kThreads - 1) / kThreads;
  return needed < most ? needed : most;
}

// Nothing happens for an empty grid: empty tensors are legal everywhere. Throws Error that names the kernel and the line.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), Grid grid, dim3 threads, std::size_t shared_bytes, cudaStream_t stream,
            Arguments&&... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const cudaError_t code = std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        return cudaLaunchKernel(kernel, grid.blocks, threads, pointers, shared_bytes, stream);
      },
      values);
  const void* address = reinterpret_cast<const void*>(kernel);
  if (code == cudaSuccess)
    note_started(address, grid.at);
  else
    check(code, name_of_kernel(address).c_str(), grid.at);
}

}  // namespace course::cuda
