// Input: 8 bytes, how much data is said to lie behind the header (little-endian); then the header's text.
#include <cstring>

#include "common/check.hpp"
#include "common/support/safetensors_header.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace course;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  int64_t behind = 0;
  if (size < sizeof behind) return 0;
  std::memcpy(&behind, data, sizeof behind);
  if (behind < 0) return 0;  // the caller has it from the size of a file
  const std::string_view text(reinterpret_cast<const char*>(data) + sizeof behind, size - sizeof behind);
  fuzz::reads_or_refuses(size, [&] {
    SafetensorsHeader header = parse_header(text, behind);
    const SafetensorsHeader again = parse_header(make_header(header.tensors, header.metadata), behind);
    fuzz::must(again.tensors.size() == header.tensors.size() && again.metadata == header.metadata,
               "a header written again is another");
  });
  return 0;
}
