// Random numbers by counter: the value at an index depends on (seed, name, index) and on nothing else, so each rank draws
// just the part of a weight that it holds, and every mesh starts from the same global weights without a message.
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace course {

// The generator itself: 128 random bits for each counter and key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// One stream of random numbers; draws at any index, in any order.
class Rng {
 public:
  Rng(uint64_t seed, std::string_view name);  // the name tells streams of one seed apart (FNV-1a)

  uint32_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;  // [0, 1), 32 random bits
  double normal(uint64_t index) const;   // mean 0, variance 1 (Box-Muller)

 private:
  std::array<uint32_t, 4> block(uint64_t counter) const;
  uint64_t key_, stream_;
};

}  // namespace course
