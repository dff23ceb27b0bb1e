// Large blocks on pages of 2 MiB where the system offers them: fewer misses when a kernel streams through memory.
#pragma once

#include <cstddef>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

namespace course {

// A hint; memory is aligned to a page. Does nothing where the system knows no such hint.
inline void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace course
