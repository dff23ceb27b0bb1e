// Where tensors on a GPU live, and what is staged on the way to it.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cpu/pool.hpp"

namespace course {

// Memory of the device that is current when this is made, taken and given back in the order of one stream: a tensor may go
// while a kernel that was started before still uses it. CUDA's own pool keeps what is given back (Stream-Ordered Memory
// Allocator, CUDA C++ Programming Guide 13.0), so a steady step asks the driver for nothing. Must not outlive the stream.
class DeviceMemory : public Allocator {
 public:
  explicit DeviceMemory(cudaStream_t stream);
  DeviceMemory(const DeviceMemory&) = delete;

  Device device() const override { return Device::Cuda; }
  // Throws Error when the card is full: what was asked for, what is in use by class, what lowers it.
  void* allocate(int64_t bytes, MemoryClass what) override;
  void release(void* memory, int64_t bytes, MemoryClass what) override;

  const MemoryUse& use() const { return use_; }
  void reset_peak() { use_.reset_peak(); }

 private:
  cudaStream_t stream_;
  MemoryUse use_;
};

// Pages of the host that the card reads and writes itself, for a Pool: making them is slow, the driver pins each.
BlockSource pinned_blocks();

}  // namespace course
