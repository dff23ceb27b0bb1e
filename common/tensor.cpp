#include "common/tensor.hpp"

#include <utility>

namespace course {

int64_t size_of(DType type) {
  switch (type) {
    case DType::F32:
    case DType::I32: return 4;
    case DType::I64:
    case DType::F64: return 8;
    case DType::BF16: return 2;
    case DType::U8: return 1;
  }
  fail("no such dtype");
}

const char* name_of(DType type) {
  switch (type) {
    case DType::F32: return "f32";
    case DType::I32: return "i32";
    case DType::I64: return "i64";
    case DType::F64: return "f64";
    case DType::BF16: return "bf16";
    case DType::U8: return "u8";
  }
  fail("no such dtype");
}

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) {
    require(size >= 0, "a shape has a negative size: ", shown(shape));
    require(!__builtin_mul_overflow(n, size, &n), "a shape of more elements than 64 bits count: ", shown(shape));
  }
  return n;
}

std::string show(const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d ? "," : "") + std::to_string(shape[d]);
  return text + "]";
}

Tensor::Tensor(Allocator& from, Shape shape, DType type)
    : allocator_(&from), numel_(course::numel(shape)), shape_(std::move(shape)), dtype_(type), class_(MemoryScope::now()) {
  if (numel_ > 0) memory_ = allocator_->allocate(bytes(), class_);
}

Tensor::Tensor(Tensor&& other) noexcept { *this = std::move(other); }

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  free();
  allocator_ = std::exchange(other.allocator_, nullptr);
  memory_ = std::exchange(other.memory_, nullptr);
  numel_ = std::exchange(other.numel_, 0);
  shape_ = std::exchange(other.shape_, {});
  dtype_ = other.dtype_;
  class_ = other.class_;
  return *this;
}

Tensor::~Tensor() { free(); }

void Tensor::free() {
  if (memory_) allocator_->release(memory_, bytes(), class_);
  memory_ = nullptr;
}

int64_t Tensor::dim(int64_t d) const {
  const int64_t at = d < 0 ? d + rank() : d;
  require(at >= 0 && at < rank(), "a tensor of shape ", shown(shape_), " has no dim ", d);
  return shape_[at];
}

Tensor Tensor::reshape(Shape shape) && {
  require(course::numel(shape) == numel_, "cannot reshape ", shown(shape_), " to ", shown(shape));
  shape_ = std::move(shape);
  return std::move(*this);
}

void Tensor::check_type(DType asked) const {
  require(dtype_ == asked, "a tensor of ", name_of(dtype_), " was read as ", name_of(asked));
}

}  // namespace course
