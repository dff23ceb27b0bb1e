#include "common/memory_class.hpp"

#include <utility>

namespace course {

namespace {

thread_local MemoryClass current = MemoryClass::Activations;

}  // namespace

const char* name_of(MemoryClass c) {
  constexpr std::array names = {"parameters", "gradients", "optimizer", "activations", "buffers"};
  return names[static_cast<size_t>(c)];
}

MemoryScope::MemoryScope(MemoryClass inside) : outside_(std::exchange(current, inside)) {}
MemoryScope::~MemoryScope() { current = outside_; }
MemoryClass MemoryScope::now() { return current; }

}  // namespace course
