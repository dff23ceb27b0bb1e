// A mark on a stream: what the stream has been given up to here.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/check.hpp"

namespace course::cuda {

class Event {
 public:
  explicit Event(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Whether the stream has come so far. Throws Error if something has failed.
  bool reached() const {
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) return false;
    check(code, "cudaEventQuery");
    return true;
  }
  // What `stream` is given from now on waits until then; the host does not.
  void holds(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace course::cuda
