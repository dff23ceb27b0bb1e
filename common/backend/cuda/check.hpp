// What a call of the CUDA runtime answered.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

#include "common/check.hpp"

namespace course::cuda {

// Throws Error with CUDA's own words unless the code is cudaSuccess. `call` is what was called, or the kernel.
inline void check(cudaError_t code, const char* call, std::source_location at = std::source_location::current()) {
  if (code != cudaSuccess) throw Error(cat(call, ": ", cudaGetErrorString(code)), at);
}

}  // namespace course::cuda
