#include "chapters/09_llama/token_file.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include "common/check.hpp"
#include "common/support/mapped_file.hpp"
#include "common/support/write_aside.hpp"

namespace course {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers of a token file are copied as they lie");

constexpr char magic[] = "TOKENS01";
constexpr size_t magic_size = sizeof magic - 1, header_size = magic_size + 3 * sizeof(uint64_t);
constexpr int64_t widest = int64_t{1} << 31;

template <typename Id>
std::vector<int32_t> ids_of_width(std::span<const std::byte> bytes) {
  std::vector<Id> ids(bytes.size() / sizeof(Id));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return {ids.begin(), ids.end()};
}

void check_ids(std::span<const int32_t> ids, int64_t vocabulary, const std::string& path) {
  for (size_t i = 0; i < ids.size(); ++i)
    require(ids[i] >= 0 && ids[i] < vocabulary, path, ": id ", ids[i], " at place ", i, " is not in the vocabulary of ",
            vocabulary);
}

}  // namespace

void write_token_file(const std::string& path, std::span<const int32_t> ids, int64_t vocabulary) {
  require(vocabulary > 0 && vocabulary <= widest, path, ": a vocabulary of ", vocabulary, " has no ids to write");
  check_ids(ids, vocabulary, path);
  const uint64_t width = vocabulary <= 65536 ? 2 : 4;
  const std::array<uint64_t, 3> header = {width, static_cast<uint64_t>(vocabulary), ids.size()};
  write_aside(path, [&](std::ostream& out) {
    out.write(magic, magic_size);
    out.write(reinterpret_cast<const char*>(header.data()), sizeof header);
    if (width == 2) {
      const std::vector<uint16_t> narrow(ids.begin(), ids.end());
      out.write(reinterpret_cast<const char*>(narrow.data()), static_cast<std::streamsize>(2 * narrow.size()));
    } else {
      out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(4 * ids.size()));
    }
  });
}

TokenFile read_token_file(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  require(bytes.size() >= header_size && std::memcmp(bytes.data(), magic, magic_size) == 0, path,
          ": is no token file, or cut: it does not begin with ", magic, " and a header of ", header_size, " bytes");
  std::array<uint64_t, 3> header{};
  std::memcpy(header.data(), bytes.data() + magic_size, sizeof header);
  const auto [width, vocabulary, count] = header;
  require(width == 2 || width == 4, path, ": ", width, " bytes an id; there are 2 and 4");
  require(vocabulary > 0 && vocabulary <= static_cast<uint64_t>(widest), path, ": a vocabulary of ", vocabulary);
  require(width == 4 || vocabulary <= 65536, path, ": 2 bytes an id do not hold a vocabulary of ", vocabulary);
  const size_t held = bytes.size() - header_size;
  require(count <= held / width && held == count * width, path, ": the header says ", count, " ids of ", width,
          " bytes, and ", held, " bytes are there");
  const auto data = bytes.subspan(header_size);
  TokenFile tokens{width == 2 ? ids_of_width<uint16_t>(data) : ids_of_width<int32_t>(data),
                   static_cast<int64_t>(vocabulary)};
  check_ids(tokens.ids, tokens.vocabulary, path);
  return tokens;
}

bool is_token_file(const std::string& path) {
  char first[magic_size] = {};
  std::ifstream(path, std::ios::binary).read(first, magic_size);
  return std::memcmp(first, magic, magic_size) == 0;
}

}  // namespace course
