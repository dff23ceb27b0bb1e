// Memory of the host: a caching allocator.
//
// A block goes back to a free list of its rounded size and is given out again from there, so a training step, which
// asks for the same sizes as the one before, asks the system for nothing. Rounding wastes at most an eighth.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "common/backend/backend.hpp"

namespace course {

// Where blocks come from and go back to. `take` gives null when there is no more; 64-byte aligned.
struct BlockSource {
  void* (*take)(int64_t bytes);
  void (*give)(void* block);
};
BlockSource system_blocks();  // with huge pages for large ones

class Pool : public Allocator {
 public:
  explicit Pool(BlockSource source = system_blocks()) : source_(source) {}
  Pool(const Pool&) = delete;
  ~Pool() override;  // gives the free blocks back; all tensors must be gone

  Device device() const override { return Device::Cpu; }
  void* allocate(int64_t bytes, MemoryClass what) override;  // 64-byte aligned. Throws Error, with the sizes, when the system has no more
  void release(void* memory, int64_t bytes, MemoryClass what) override;

  MemoryUse use() const;
  void reset_peak();

  // What a request takes: a multiple of 64, of which there are eight between a power of two and the next.
  static int64_t rounded(int64_t bytes);

 private:
  void give_back();

  BlockSource source_;
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, std::vector<void*>> free_;  // by rounded size
  MemoryUse use_;
};

}  // namespace course
