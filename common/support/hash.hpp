// A hash that tells a file or a text from another that was not made to look like it: XXH3 of 64 bits
// (github.com/Cyan4973/xxHash), as 16 hexadecimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace course {

std::string hash_of(std::span<const std::byte> bytes);
std::string hash_of(const std::vector<std::string>& texts);  // one behind the other, and where each ends

}  // namespace course
