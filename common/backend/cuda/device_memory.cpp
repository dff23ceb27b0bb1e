#include "common/backend/cuda/device_memory.hpp"

#include <cstdint>

#include "common/backend/cuda/check.hpp"
#include "common/support/table.hpp"

namespace course {

DeviceMemory::DeviceMemory(cudaStream_t stream) : stream_(stream) {
  int device = 0;
  cudaMemPool_t pool;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  cuda::check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  uint64_t keep_all = UINT64_MAX;
  cuda::check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
}

void* DeviceMemory::allocate(int64_t bytes, MemoryClass what) {
  void* memory = nullptr;
  const cudaError_t code = cudaMallocAsync(&memory, bytes, stream_);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is said here, and no later call shall say it again
    std::string used;
    for (const MemoryClass c : all_memory_classes)
      if (use_.now_of[c] > 0) used += cat(used.empty() ? "" : ", ", name_of(c), " ", human_bytes(use_.now_of[c]));
    fail(cat("the GPU's memory is full: ", human_bytes(bytes), " of ", name_of(what), " asked for, in use are ",
             used.empty() ? "none of ours" : used, "; a smaller --batch or --seq, --recompute layer or more ranks take less"));
  }
  cuda::check(code, "cudaMallocAsync");
  use_.allocated(bytes, what);
  return memory;
}

void DeviceMemory::release(void* memory, int64_t bytes, MemoryClass what) {
  cudaFreeAsync(memory, stream_);  // a fault of an earlier kernel is found where somebody can throw
  use_.released(bytes, what);
}

BlockSource pinned_blocks() {
  return {[](int64_t bytes) {
            void* block = nullptr;
            return cudaMallocHost(&block, bytes) == cudaSuccess ? block : nullptr;
          },
          [](void* block) { cudaFreeHost(block); }};
}

}  // namespace course
