// A tensor: contiguous, row-major, owning, move-only.
//
//   Tensor x = backend.empty({B, S, E});          // f32 unless said otherwise; not initialised
//   x.dim(-1)                                      // E
//   Tensor rows = std::move(x).reshape({B * S, E}) // same memory, other shape
//
// Memory comes from an Allocator (a Backend's pool) which must outlive the tensor. Empty tensors (a dim of 0) are legal
// everywhere: the last ranks of an uneven split hold them.
#pragma once

#include <cstdint>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "common/bf16.hpp"
#include "common/check.hpp"
#include "common/memory_class.hpp"

namespace course {

enum class DType { F32, BF16, I32, I64, F64, U8 };  // F64 and U8 carry messages of the host, no kernel takes them
enum class Device { Cpu, Cuda };

int64_t size_of(DType type);         // bytes of one element
const char* name_of(DType type);     // "f32"

template <typename T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::F32; }
template <> constexpr DType dtype_of<BFloat16>() { return DType::BF16; }
template <> constexpr DType dtype_of<int32_t>() { return DType::I32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::I64; }
template <> constexpr DType dtype_of<double>() { return DType::F64; }
template <> constexpr DType dtype_of<uint8_t>() { return DType::U8; }

using Shape = std::vector<int64_t>;

int64_t numel(const Shape& shape);          // the product of the sizes; 1 for a scalar {}; throws on a negative size
std::string show(const Shape& shape);       // "[2,3]"
// The same, made when it is printed: `require` has its words before it knows whether it needs them, and some run often.
struct ShapeText {
  const Shape& shape;
  friend std::ostream& operator<<(std::ostream& out, const ShapeText& text) { return out << show(text.shape); }
};
inline ShapeText shown(const Shape& shape) { return {shape}; }

// Where memory comes from and goes back to.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  virtual void* allocate(int64_t bytes, MemoryClass what) = 0;              // 64-byte aligned; bytes > 0
  virtual void release(void* memory, int64_t bytes, MemoryClass what) = 0;  // bytes and class as asked for
};

class Tensor {
 public:
  Tensor() = default;  // holds nothing: defined() is false
  Tensor(Allocator& from, Shape shape, DType type);  // of the class that MemoryScope says
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  bool defined() const { return allocator_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t dim(int64_t d) const;  // negative d counts from the end
  int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  int64_t bytes() const { return numel_ * size_of(dtype_); }
  Device device() const { return allocator_->device(); }
  MemoryClass memory_class() const { return class_; }  // what its memory is counted as

  // The elements. Throws when T is not the tensor's type.
  template <typename T>
  T* data() {
    check_type(dtype_of<T>());
    return static_cast<T*>(memory_);
  }
  template <typename T>
  const T* data() const {
    check_type(dtype_of<T>());
    return static_cast<const T*>(memory_);
  }
  void* raw() { return memory_; }
  const void* raw() const { return memory_; }

  // The same memory under another shape of as many elements.
  Tensor reshape(Shape shape) &&;

 private:
  void check_type(DType asked) const;
  void free();

  Allocator* allocator_ = nullptr;
  void* memory_ = nullptr;
  int64_t numel_ = 0;
  Shape shape_;
  DType dtype_ = DType::F32;
  MemoryClass class_ = MemoryClass::Activations;
};

}  // namespace course
