// Kernels with faults, and right ones beside them.
#pragma once

#include <string>

#include "common/backend/cuda/cuda_backend.hpp"
#include "common/backend/cuda/launch.hpp"
#include "tests/support/thrown.hpp"

namespace course::test {

// n floats on the emulated GPU, of a stream.
struct OnDevice {
  OnDevice(int64_t count, cudaStream_t on) : n(count), stream(on) {
    cuda::check(cudaMallocAsync(reinterpret_cast<void**>(&data), n * sizeof(float), stream), "cudaMallocAsync");
  }
  ~OnDevice() { cudaFreeAsync(data, stream); }
  OnDevice(const OnDevice&) = delete;
  float* data = nullptr;
  int64_t n;
  cudaStream_t stream;
};

// What `act` throws and where, "" for nothing; the emulated GPU is reset then.
template <typename Act>
std::string said(Act act) {
  const auto error = error_thrown(act);
  cudaDeviceReset();
  return error ? cat(error->what(), " (", error->where(), ")") : "";
}

}  // namespace course::test
