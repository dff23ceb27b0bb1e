// The one emulated GPU of this process: its memory, its streams, and what went wrong last. cuda_runtime.h's functions stand
// on it in runtime.cpp, those of cuBLAS in cublas.cpp.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/emulate/device_arena.hpp"
#include "common/backend/cuda/emulate/streams.hpp"

namespace course::emulate {

// A stream's work, in order. Most of it is done as soon as it is put there. What waits for another rank (NCCL's calls) stays,
// and what comes behind it or waits for its event: it gets on whenever somebody calls the runtime.
struct Queue {
  uint64_t put = 0, done = 0;              // pieces of work so far
  std::deque<std::function<bool()>> open;  // each to be asked until it says that it is done
};

}  // namespace course::emulate

struct CUstream_st {
  int id;
  course::emulate::Clock clock;
  std::shared_ptr<course::emulate::Queue> queue;
};
struct CUevent_st {
  course::emulate::Clock clock;
  std::shared_ptr<course::emulate::Queue> queue = {};  // null before it is recorded
  uint64_t upto = 0;                                   // of the queue's work
  std::chrono::steady_clock::time_point at = {};       // of the record
  bool complete() const { return !queue || queue->done >= upto; }
};

namespace course::emulate {

using Pieces = std::vector<std::pair<Piece*, bool>>;  // and whether it is written

class Gpu {
 public:
  static Gpu& get();

  // Keeps what was found for cudaGetErrorString. After a sticky fault every call fails with it, as on a GPU.
  cudaError_t failed(cudaError_t code, std::string what, bool sticky = false);
  cudaError_t state() const { return sticky_; }
  const char* text(cudaError_t code) const;
  cudaError_t last();  // and forgets it, unless it is sticky
  void reset();

  // Puts `work` on a stream, with the memory it says it touches open to it. Fails when that is not device memory, or when
  // another stream still works on it and nothing makes this one wait. `work` returns "" or what went wrong. It may be done
  // when the caller has returned: it captures values, no references.
  template <typename Work>
  cudaError_t put(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches, Work work) {
    Pieces pieces;
    const cudaError_t ready = order(stream, what, touches, pieces);
    if (ready != cudaSuccess) return ready;
    return later(stream, [this, pieces = std::move(pieces), work = std::move(work)]() mutable {
      if (sticky_ != cudaSuccess) return true;
      const std::string wrong = with_open(pieces, work);
      if (!wrong.empty()) failed(cudaErrorLaunchFailure, wrong, true);
      return true;
    });
  }

  // The two parts of that. The order is checked and noted when the work is put on the stream, whenever it is done.
  cudaError_t order(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches, Pieces& pieces) {
    return sticky_ != cudaSuccess ? sticky_ : prepare(stream, what, touches, pieces);
  }
  cudaError_t later(cudaStream_t stream, std::function<bool()> work);
  template <typename Work>
  auto with_open(const Pieces& pieces, Work& work) {
    watch_faults();
    for (const auto& [piece, writes] : pieces) arena.open(*piece, writes);
    auto result = work();
    for (const auto& [piece, writes] : pieces) arena.close(*piece);
    return result;
  }

  void advance();  // does what can be done
  std::shared_ptr<Queue> new_queue() { return queues_.emplace_back(std::make_shared<Queue>()); }

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
  cudaError_t prepare(cudaStream_t stream, const std::string& what, const std::vector<Touch>& touches, Pieces& pieces);

  std::vector<std::shared_ptr<Queue>> queues_;
  CUstream_st default_stream_{0, {}, new_queue()};
  cudaError_t sticky_ = cudaSuccess, last_ = cudaSuccess;
  std::string text_;
};

}  // namespace course::emulate
