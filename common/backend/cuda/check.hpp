// What a call of the CUDA runtime answered.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "common/backend/cuda/last_kernels.hpp"
#include "common/check.hpp"

namespace course::cuda {

// What an earlier kernel did wrong comes as one of these codes, from whatever is called next: an illegal address, a launch
// that took too long, an assert, and from 714 on the faults of single instructions. CUDA Runtime API 13.0, cudaError_t
inline bool is_kernel_fault(int code) { return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719); }

// Throws Error with CUDA's own words unless the code is cudaSuccess. `call` is what was called, or the kernel.
inline void check(cudaError_t code, const char* call, std::source_location at = std::source_location::current()) {
  if (code == cudaSuccess) return;
  std::string words = cat(call, ": ", cudaGetErrorString(code));
  if (const std::string before = last_kernels(); is_kernel_fault(code) && !before.empty())
    words += cat("; started before: ", before, "; CUDA_LAUNCH_BLOCKING=1 shows which of them failed");
  throw Error(words, at);
}

}  // namespace course::cuda
