// The learning rate by step: linear warm-up, then half a cosine to 0. As PyTorch's SequentialLR of LinearLR(0.1 → 1) and
// CosineAnnealingLR; the closed form agrees to 1e-15 of the peak. Loshchilov and Hutter, arXiv:1608.03983
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace course {

struct LrSchedule {
  double peak;
  int64_t warmup, total;  // steps; warmup ≥ total: warm-up only

  // For optimizer step s, from 0: peak·(0.1 + 0.9·s/W) below W, peak at W, then cosine, 0 at `total` and after it.
  double at(int64_t s) const {
    if (s < warmup) return peak * (0.1 + 0.9 * static_cast<double>(s) / static_cast<double>(warmup));
    if (total <= warmup) return peak;
    const double done = static_cast<double>(std::min(s, total) - warmup) / static_cast<double>(total - warmup);
    return peak * (1 + std::cos(std::numbers::pi * done)) / 2;
  }
};

}  // namespace course
