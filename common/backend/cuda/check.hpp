// What a call of the CUDA runtime answered.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "common/backend/cuda/last_kernels.hpp"
#include "common/check.hpp"

namespace course::cuda {

// What an earlier kernel may have done comes as one of these codes, from whatever is called next.
inline bool is_kernel_fault(cudaError_t code) { return code >= 700 && code < 720; }

// Throws Error with CUDA's own words unless the code is cudaSuccess. `call` is what was called, or the kernel.
inline void check(cudaError_t code, const char* call, std::source_location at = std::source_location::current()) {
  if (code == cudaSuccess) return;
  std::string words = cat(call, ": ", cudaGetErrorString(code));
  if (const std::string before = last_kernels(); is_kernel_fault(code) && !before.empty())
    words += cat("; started before: ", before, "; CUDA_LAUNCH_BLOCKING=1 shows which of them failed");
  throw Error(words, at);
}

}  // namespace course::cuda
