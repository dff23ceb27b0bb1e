#include "common/support/hash.hpp"

#include <xxhash.h>

#include <cstdio>

namespace course {
namespace {

std::string digits(XXH64_hash_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

std::string hash_of(std::span<const std::byte> bytes) { return digits(XXH3_64bits(bytes.data(), bytes.size())); }

std::string hash_of(const std::vector<std::string>& texts) {
  XXH64_hash_t hash = 0;
  for (const auto& text : texts) hash = XXH3_64bits_withSeed(text.data(), text.size(), hash);
  return digits(hash);
}

}  // namespace course
