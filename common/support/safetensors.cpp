#include "common/support/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <system_error>
#include <type_traits>
#include <utility>

#include "common/bf16.hpp"
#include "common/check.hpp"
#include "common/support/safetensors_header.hpp"

namespace course {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so is this reader");

constexpr int64_t kLengthBytes = 8;

std::string reason() { return std::generic_category().message(errno); }

float from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign ? -1.0f : 1.0f);
  const uint32_t widened = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

// Converts element by element: mapped bytes may stand at any alignment.
template <typename From, typename To, typename Convert>
void convert(std::span<const std::byte> from, std::span<To> to, Convert one) {
  for (size_t i = 0; i < to.size(); ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    to[i] = static_cast<To>(one(value));
  }
}

template <typename To>
bool convert(StoredType type, std::span<const std::byte> from, std::span<To> to) {
  const auto same = [](auto value) { return value; };
  if constexpr (std::is_floating_point_v<To>) {
    if (type == StoredType::F64) return convert<double>(from, to, same), true;
    if (type == StoredType::F32) return convert<float>(from, to, same), true;
    if (type == StoredType::BF16) return convert<BFloat16>(from, to, same), true;
    if (type == StoredType::F16) return convert<uint16_t>(from, to, from_f16), true;
  }
  if constexpr (std::is_same_v<To, int64_t>) {
    if (type == StoredType::I64) return convert<int64_t>(from, to, same), true;
  }
  if constexpr (std::is_same_v<To, int64_t> || std::is_same_v<To, int32_t>) {
    if (type == StoredType::I32) return convert<int32_t>(from, to, same), true;
  }
  if constexpr (std::is_same_v<To, uint8_t>) {
    if (type == StoredType::U8 || type == StoredType::BOOL) return convert<uint8_t>(from, to, same), true;
  }
  return false;
}

void write_all(int file, std::span<const std::byte> bytes, int64_t at, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, path, ": cannot write: ", reason());
    bytes = bytes.subspan(static_cast<size_t>(written));
    at += written;
  }
}

// Makes the rename itself last. Some file systems cannot sync a folder; the file's own bytes are safe by then.
void sync_folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

StoredType stored_type(DType type) {
  switch (type) {
    case DType::F32:
      return StoredType::F32;
    case DType::BF16:
      return StoredType::BF16;
    case DType::I32:
      return StoredType::I32;
    case DType::I64:
      return StoredType::I64;
    case DType::F64:
      return StoredType::F64;
    case DType::U8:
      return StoredType::U8;
  }
  fail("no such dtype");
}

SafetensorsFile::SafetensorsFile(std::string path) : file_(std::move(path)) {
  const std::span<const std::byte> all = file_.bytes();
  const auto size = static_cast<int64_t>(all.size());
  require(size > 0, file_.path(), ": the file is empty");
  require(size >= kLengthBytes, file_.path(), ": the file has ", size, " bytes, and the header's length alone takes 8");
  uint64_t length = 0;
  std::memcpy(&length, all.data(), sizeof(length));
  require(length <= kMaxHeader, file_.path(), ": the header claims ", length, " bytes, the format's limit is ",
          kMaxHeader);
  const int64_t behind = size - kLengthBytes;
  require(static_cast<int64_t>(length) <= behind, file_.path(), ": the header claims ", length,
          " bytes, the file has only ", behind, " more");
  data_ = all.subspan(kLengthBytes + length);
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + kLengthBytes, length);
  try {
    SafetensorsHeader header = parse_header(text, static_cast<int64_t>(data_.size()));
    metadata_ = std::move(header.metadata);
    tensors_ = std::move(header.tensors);
  } catch (const Error& e) {
    fail(cat(file_.path(), ": ", e.what()));
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(), [&](size_t a, size_t b) { return tensors_[a].name < tensors_[b].name; });
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (size_t i : by_name_) names.push_back(tensors_[i].name);
  return names;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](size_t i, const std::string& wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

const StoredTensor& SafetensorsFile::info(const std::string& name) const {
  const StoredTensor* found = find(name);
  require(found, path(), ": no tensor is named ", in_quotes(name));
  return *found;
}

std::span<const std::byte> SafetensorsFile::bytes(const std::string& name) const {
  const StoredTensor& t = info(name);
  return data_.subspan(static_cast<size_t>(t.begin), static_cast<size_t>(t.end - t.begin));
}

template <typename T>
void SafetensorsFile::read(const std::string& name, std::span<T> to) const {
  const StoredTensor& t = info(name);
  require(static_cast<int64_t>(to.size()) == course::numel(t.shape), path(), ": tensor ", in_quotes(name), " is ",
          show(t.shape), ", and room was given for ", to.size());
  require(convert(t.type, bytes(name), to), path(), ": tensor ", in_quotes(name), " is ", name_of(t.type),
          ", which cannot be read as ", name_of(dtype_of<T>()));
}

template void SafetensorsFile::read(const std::string&, std::span<float>) const;
template void SafetensorsFile::read(const std::string&, std::span<double>) const;
template void SafetensorsFile::read(const std::string&, std::span<int64_t>) const;
template void SafetensorsFile::read(const std::string&, std::span<int32_t>) const;
template void SafetensorsFile::read(const std::string&, std::span<uint8_t>) const;

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorSpec> specs, const Metadata& metadata)
    : path_(std::move(path)), temporary_(path_ + ".tmp") {
  std::vector<StoredTensor> tensors;
  for (TensorSpec& s : specs) tensors.push_back({std::move(s.name), s.type, std::move(s.shape)});
  std::string text;
  try {
    text = make_header(tensors, metadata);
  } catch (const Error& e) {
    fail(cat(path_, ": ", e.what()));
  }
  const uint64_t length = text.size();
  const int64_t data = kLengthBytes + static_cast<int64_t>(length);
  for (const StoredTensor& t : tensors) places_[t.name] = {data + t.begin, data + t.end};

  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require(file_ >= 0, temporary_, ": cannot create: ", reason());
  try {
    write_all(file_, std::as_bytes(std::span(&length, 1)), 0, temporary_);
    write_all(file_, as_bytes_of(text), kLengthBytes, temporary_);
  } catch (...) {
    ::close(file_);
    ::unlink(temporary_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::append(const std::string& name, std::span<const std::byte> bytes) {
  require(file_ >= 0, path_, ": already finished");
  const auto found = places_.find(name);
  require(found != places_.end(), path_, ": no tensor is named ", in_quotes(name));
  Place& place = found->second;
  const auto size = static_cast<int64_t>(bytes.size());
  require(size <= place.end - place.next, path_, ": tensor ", in_quotes(name), " has room for ", place.end - place.next,
          " more bytes, and ", size, " came");
  write_all(file_, bytes, place.next, temporary_);
  place.next += size;
}

void SafetensorsWriter::finish() {
  require(file_ >= 0, path_, ": already finished");
  for (const auto& [name, place] : places_) {
    require(place.next == place.end, path_, ": tensor ", in_quotes(name), " lacks ", place.end - place.next, " bytes");
  }
  require(::fsync(file_) == 0, temporary_, ": cannot sync: ", reason());
  require(::rename(temporary_.c_str(), path_.c_str()) == 0, path_, ": cannot rename ", temporary_, ": ", reason());
  ::close(std::exchange(file_, -1));
  sync_folder_of(path_);
}

void write_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors, const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  for (const TensorBytes& t : tensors) specs.push_back({t.name, t.type, t.shape});
  SafetensorsWriter out(path, std::move(specs), metadata);
  for (const TensorBytes& t : tensors) out.append(t.name, t.bytes);
  out.finish();
}

}  // namespace course
