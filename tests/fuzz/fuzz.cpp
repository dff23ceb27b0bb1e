#include "tests/fuzz/fuzz.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "common/check.hpp"

namespace {

bool counting = false;
int64_t held = 0, limit = 0;

void count(int64_t bytes) {
  if (!counting) return;
  held += bytes;
  if (held <= limit) return;
  counting = false;
  std::fprintf(stderr, "a parser holds %lld bytes, %lld are allowed\n", static_cast<long long>(held),
               static_cast<long long>(limit));
  std::abort();
}

}  // namespace

// Every allocation of C++ passes here; what the system says of its size is what it costs.
void* operator new(size_t size) {
  if (size > size_t{1} << 40) count(int64_t{1} << 40);  // no system has it; it must not end as a mere bad_alloc
  void* memory = std::malloc(size ? size : 1);
  if (!memory) throw std::bad_alloc();
  count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size ? size : 1);
  if (memory) count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory) count(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace course::fuzz {

void must(bool holds, std::string_view words) {
  if (holds) return;
  counting = false;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(words.size()), words.data());
  std::abort();
}

void reads_or_refuses(size_t size, const std::function<void()>& parse) {
  held = 0;
  limit = kBytesAlways + kBytesForOne * static_cast<int64_t>(size);
  counting = true;
  try {
    parse();
  } catch (const Error& error) {
    const std::string_view said = error.what();
    must(!said.empty() && said.find('\n') == said.npos, "an error is not one line");
  }
  counting = false;
}

}  // namespace course::fuzz
