// When threads are worth their start.
#pragma once

#include <cstdint>

namespace course::cpu {

// Elements below which a kernel stays on one thread: starting a parallel region costs about a microsecond.
inline constexpr int64_t kWorthThreads = 1 << 14;

// Sums over rows are split into this many blocks at most, whatever the number of threads, and added in the order of the
// blocks: the bits do not depend on the threads.
inline constexpr int64_t kSumBlocks = 64;

constexpr int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

}  // namespace course::cpu
