// safetensors: the file of weights that Hugging Face's libraries read and write.
//
//   8 bytes     length n of the header, little-endian
//   n bytes     JSON: {"__metadata__": {"k": "v"}, "w": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
//   the rest    the tensors' bytes, little-endian, row-major; offsets count from here, without a gap or an overlap
//
//   SafetensorsFile file("model.safetensors");
//   std::vector<float> w = file.read<float>("model.norm.weight");
//   write_safetensors("out.safetensors", {{"w", StoredType::F32, {2, 3}, as_bytes_of(w)}}, {{"format", "pt"}});
//
// A file comes from strangers, so nothing in it is believed before it is checked: a length is compared with the file's
// size before it is used, and memory grows with the bytes that are there, not with the numbers that they spell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/support/mapped_file.hpp"
#include "common/tensor.hpp"

namespace course {

// The format's types, in the order in which the reference library sorts a file: the last stands first.
enum class StoredType {
  BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ,
  I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64
};

const char* name_of(StoredType type);                              // "F8_E4M3", as in the file
int64_t bits_of(StoredType type);                                  // of one element
int64_t stored_bytes(StoredType type, const Shape& shape);         // throws on overflow, or half a byte left over
StoredType stored_type(DType type);                                // what a Tensor of that type is stored as

using Metadata = std::map<std::string, std::string>;

// One entry of a header. Its bytes are [begin, end) of the data.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::F32;
  Shape shape;
  int64_t begin = 0, end = 0;
};

// An open file. The constructor checks all of the header and no data: it throws Error with one line, "PATH: REASON",
// that names the tensor where there is one. It refuses what the reference library refuses, and these, which that lets
// pass: white space before the header, a name twice (the first tensor would be lost), a size of 2^63 or more.
// Nothing is copied on opening: bytes() points into the mapping and dies with the file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::string path);

  const std::string& path() const { return file_.path(); }
  const Metadata& metadata() const { return metadata_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of their bytes
  std::vector<std::string> names() const;                                // sorted

  // By name. info() and what follows throw when no tensor has it, and say which file.
  bool has(const std::string& name) const { return find(name) != nullptr; }
  const StoredTensor& info(const std::string& name) const;
  std::span<const std::byte> bytes(const std::string& name) const;  // at any alignment

  // The values, converted where nothing but rounding can be lost; any other type throws.
  //   float, double  from F64, F32, BF16, F16, rounded to nearest
  //   int64_t        from I64, I32          int32_t  from I32          uint8_t  from U8, BOOL
  template <typename T>
  void read(const std::string& name, std::span<T> to) const;  // `to` has as many elements as the tensor
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    std::vector<T> values(static_cast<size_t>(numel(info(name).shape)));
    read<T>(name, std::span<T>(values));
    return values;
  }

 private:
  const StoredTensor* find(const std::string& name) const;

  MappedFile file_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
  std::vector<size_t> by_name_;      // indices into tensors_, sorted by name
  std::span<const std::byte> data_;  // behind the header
};

// What to write.
struct TensorSpec {
  std::string name;
  StoredType type = StoredType::F32;
  Shape shape;
};
struct TensorBytes {
  std::string name;
  StoredType type = StoredType::F32;
  Shape shape;
  std::span<const std::byte> bytes;
};

// Anything contiguous, as the bytes it is made of.
template <typename Values>
std::span<const std::byte> as_bytes_of(const Values& values) {
  return std::as_bytes(std::span(values));
}

// Writes a file a piece at a time, so that no more than a piece need be in memory.
//
//   SafetensorsWriter out(path, {{"w", StoredType::F32, {rows, columns}}});
//   for (...) out.append("w", as_bytes_of(row));
//   out.finish();
//
// The file depends on specs, metadata and values alone, not on their order or the order of the pieces, and is to the
// byte that of the reference library. It is written to PATH.tmp; finish() syncs it and renames it to PATH, so PATH is at
// any moment the old file or all of the new one. Without finish() the temporary file is removed and PATH stays as it was.
// Two writers of one PATH at a time are a mistake of the caller.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::string path, std::vector<TensorSpec> specs, const Metadata& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  void append(const std::string& name, std::span<const std::byte> bytes);  // the next bytes of that tensor
  void finish();  // throws, naming the tensor, when bytes are missing

 private:
  struct Place {
    int64_t next, end;  // of the file
  };
  std::string path_, temporary_;
  int file_ = -1;
  std::map<std::string, Place> places_;
};

// All at once, by the same rules.
void write_safetensors(const std::string& path, const std::vector<TensorBytes>& tensors, const Metadata& metadata = {});

}  // namespace course
