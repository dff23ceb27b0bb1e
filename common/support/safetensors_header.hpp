// The JSON at the head of a safetensors file. Only safetensors.cpp calls this; messages are reasons without the path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/support/safetensors.hpp"

namespace course {

constexpr uint64_t kMaxHeader = 100'000'000;  // bytes; the format's limit

struct SafetensorsHeader {
  Metadata metadata;
  std::vector<StoredTensor> tensors;  // sorted by their bytes
};

// Reads and checks the text of a header whose file has `data_bytes` behind it. Every entry is whole, names differ,
// sizes agree with shapes, and the tensors cover the data exactly once.
SafetensorsHeader parse_header(std::string_view text, int64_t data_bytes);

// Puts the tensors in the reference library's order, gives them their offsets, and returns the text, padded to 8 bytes.
std::string make_header(std::vector<StoredTensor>& tensors, const Metadata& metadata);

// A stranger's text inside a message: in quotes, control characters escaped, cut when long, so a line stays one line.
std::string in_quotes(std::string_view text);

}  // namespace course
