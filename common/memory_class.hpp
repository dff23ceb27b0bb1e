// What a piece of memory is for. Every tensor has a class from the moment it is made, so memory can be counted by class.
//
//   const MemoryScope scope(MemoryClass::Gradients);   // what this thread makes until the end of the block
//   grad_ = backend.zeros(shape);
//
//   Parameters    what this rank owns of the weights
//   Gradients     what backward adds up in, whole or reduced
//   Optimizer     AdamW's two moments
//   Activations   what forward hands on and keeps for backward, and the gradients of these; whatever nobody says is else
//   Buffers       room to work in: messages packed, weights that FSDP has gathered for a while, scratch of the kernels,
//                 RoPE's table, the batch's ids
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace course {

enum class MemoryClass : uint8_t { Parameters, Gradients, Optimizer, Activations, Buffers };
inline constexpr std::array all_memory_classes = {MemoryClass::Parameters, MemoryClass::Gradients,
                                                  MemoryClass::Optimizer, MemoryClass::Activations,
                                                  MemoryClass::Buffers};
const char* name_of(MemoryClass c);  // "parameters"

// A number of bytes for each class.
class BytesByClass {
 public:
  int64_t& operator[](MemoryClass c) { return bytes_[static_cast<size_t>(c)]; }
  int64_t operator[](MemoryClass c) const { return bytes_[static_cast<size_t>(c)]; }
  int64_t total() const { return std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0}); }
  bool operator==(const BytesByClass&) const = default;

 private:
  std::array<int64_t, all_memory_classes.size()> bytes_{};
};

// While it lives, tensors that this thread makes are of this class; an inner scope goes before an outer one. Other threads
// are not concerned. A tensor keeps its class when it is moved or given another shape.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryClass inside);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  static MemoryClass now();  // Activations where there is no scope

 private:
  MemoryClass outside_;
};

}  // namespace course
