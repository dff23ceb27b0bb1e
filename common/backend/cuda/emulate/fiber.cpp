#include "common/backend/cuda/emulate/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "common/backend/cuda/emulate/machine.hpp"
#include "common/check.hpp"

namespace course::emulate {
namespace {

thread_local Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(size_t stack_bytes, size_t colour) : above_(colour % 16 * 256) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (stack_bytes + page - 1) / page * page + page;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, "no memory for a fiber's stack of ", bytes_, " bytes");
  stack_ = static_cast<char*>(memory);
  mprotect(stack_, page, PROT_NONE);
}

Fiber::~Fiber() { munmap(stack_, bytes_); }

void Fiber::begin() {
  running->body_(running->with_);
  running->done_ = true;
  pause();
}

void Fiber::start(void (*body)(void*), void* with) {
  body_ = body;
  with_ = with;
  done_ = false;
  here_ = prepare_stack(stack_, bytes_ - above_, &Fiber::begin);
}

void Fiber::resume() {
  running = this;
  switch_stack(&caller_, here_);
}

void Fiber::pause() {
  Fiber& fiber = *running;
  switch_stack(&fiber.here_, fiber.caller_);
}

}  // namespace course::emulate
