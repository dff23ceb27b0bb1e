#include "common/backend/cpu/pool.hpp"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "common/backend/cpu/huge_pages.hpp"

namespace course {

namespace {

constexpr int64_t kAlign = 64, kHugePage = 2 << 20;

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

void* from_system(int64_t size) {
  const bool huge = size >= 2 * kHugePage;
  void* memory = std::aligned_alloc(huge ? kHugePage : kAlign, huge ? round_up(size, kHugePage) : size);
  if (memory && huge) prefer_huge_pages(memory, size);
  return memory;
}

}  // namespace

BlockSource system_blocks() { return {from_system, std::free}; }

int64_t Pool::rounded(int64_t bytes) {
  const int64_t power = std::bit_floor(static_cast<uint64_t>(bytes));
  return round_up(bytes, std::max(kAlign, power / 8));
}

void* Pool::allocate(int64_t bytes, MemoryClass what) {
  const std::lock_guard lock(mutex_);
  const int64_t size = rounded(bytes);
  std::vector<void*>& ready = free_[size];
  void* memory = nullptr;
  if (!ready.empty()) {
    memory = ready.back();
    ready.pop_back();
  } else {
    memory = source_.take(size);
    if (!memory) {
      give_back();
      memory = source_.take(size);
    }
    require(memory, "out of memory: ", bytes, " bytes asked for, ", use_.now, " in use");
    use_.from_system += size;
  }
  ASAN_POISON_MEMORY_REGION(memory, size);  // nothing, but under AddressSanitizer: see tests/sanitize/README.md
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  use_.allocated(bytes, what);
  return memory;
}

void Pool::release(void* memory, int64_t bytes, MemoryClass what) {
  const std::lock_guard lock(mutex_);
  ASAN_POISON_MEMORY_REGION(memory, rounded(bytes));
  free_[rounded(bytes)].push_back(memory);
  use_.released(bytes, what);
}

MemoryUse Pool::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void Pool::reset_peak() {
  const std::lock_guard lock(mutex_);
  use_.reset_peak();
}

void Pool::give_back() {
  for (auto& [size, blocks] : free_) {
    for (void* memory : blocks) source_.give(memory);
    blocks.clear();
  }
}

Pool::~Pool() { give_back(); }

}  // namespace course
