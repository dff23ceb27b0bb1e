// The one emulated GPU of this process: its memory, its streams, and what went wrong last. cuda_runtime.h's functions stand
// on it in runtime.cpp, those of cuBLAS in cublas.cpp.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/emulate/device_arena.hpp"
#include "common/backend/cuda/emulate/streams.hpp"

struct CUstream_st {
  int id;
  course::emulate::Clock clock;
};
struct CUevent_st {
  course::emulate::Clock clock;
  std::chrono::steady_clock::time_point at;  // of the record
};

namespace course::emulate {

class Gpu {
 public:
  static Gpu& get();

  // Keeps what was found for cudaGetErrorString. After a sticky fault every call fails with it, as on a GPU.
  cudaError_t failed(cudaError_t code, std::string what, bool sticky = false);
  cudaError_t state() const { return sticky_; }
  const char* text(cudaError_t code) const;
  cudaError_t last();  // and forgets it, unless it is sticky
  void reset();

  // Runs `work` as the next of a stream, with the memory it says it touches open to it. Fails when that is not device memory,
  // or when another stream still works on it and nothing makes this one wait. `work` returns "" or what went wrong.
  template <typename Work>
  cudaError_t run(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches, Work work) {
    if (sticky_ != cudaSuccess) return sticky_;
    std::vector<std::pair<Piece*, bool>> pieces;
    const cudaError_t ready = prepare(stream, what, touches, pieces);
    if (ready != cudaSuccess) return ready;
    for (const auto& [piece, writes] : pieces) arena.open(*piece, writes);
    const std::string wrong = work();
    for (const auto& [piece, writes] : pieces) arena.close(*piece);
    return wrong.empty() ? cudaSuccess : failed(cudaErrorLaunchFailure, wrong, true);
  }

  // The same for what needs no look at the memory: an order on the stream, and nothing else.
  cudaError_t order(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches) {
    std::vector<std::pair<Piece*, bool>> pieces;
    return sticky_ != cudaSuccess ? sticky_ : prepare(stream, what, touches, pieces);
  }

  void watch_faults();  // before device memory is handed out or opened
  CUstream_st* stream(cudaStream_t asked) { return asked ? asked : &default_stream_; }
  bool pinned(const void* address) const;

  DeviceArena arena;
  Clock host;                                     // what the host has waited for
  int streams = 1, device = 0;
  std::map<char*, size_t> pinned_memory;          // begin, bytes
  std::map<const void*, int> shared_memory_most;  // by kernel, where it was raised

 private:
  Gpu() = default;
  cudaError_t prepare(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches,
                      std::vector<std::pair<Piece*, bool>>& pieces);

  CUstream_st default_stream_{0, {}};
  cudaError_t sticky_ = cudaSuccess, last_ = cudaSuccess;
  std::string text_;
};

std::string name_of_kernel(const void* kernel);

}  // namespace course::emulate
