// Kernels with faults, and right ones beside them.
#pragma once

#include <string>

#include "common/backend/cuda/launch.hpp"

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
struct Stream {
  Stream() { cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream;
};

// What `act` throws, "" for nothing; the emulated GPU is reset then.
template <typename Act>
std::string said(Act act) {
  std::string text;
  try {
    act();
  } catch (const Error& error) {
    text = cat(error.what(), " (", error.where(), ")");
  }
  cudaDeviceReset();
  return text;
}

}  // namespace course::test
