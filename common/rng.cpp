#include "common/rng.hpp"

#include <cmath>
#include <numbers>

namespace course {

Rng::Rng(uint64_t seed, std::string_view name) : key_(seed), stream_(0xcbf29ce484222325ull) {
  for (const char c : name) stream_ = (stream_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * x[0], b = 0xCD9E8D57ull * x[2];
    x = {static_cast<uint32_t>(b >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return x;
}

std::array<uint32_t, 4> Rng::block(uint64_t counter) const {
  return philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), static_cast<uint32_t>(stream_),
                     static_cast<uint32_t>(stream_ >> 32)},
                    {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
}

uint32_t Rng::bits(uint64_t index) const { return block(index)[0]; }

double Rng::uniform(uint64_t index) const { return bits(index) * 0x1p-32; }

double Rng::normal(uint64_t index) const {
  const auto x = block(index);
  const double radius = std::sqrt(-2 * std::log((x[0] + 1.0) * 0x1p-32));
  return radius * std::cos(2 * std::numbers::pi * x[1] * 0x1p-32);
}

}  // namespace course
