#include "common/backend/cuda/emulate/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "common/check.hpp"

namespace course::emulate {
namespace {

thread_local Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(size_t stack_bytes) {
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

#if defined(__x86_64__)

extern "C" void course_switch_stack(void** save, void* load);
asm(R"(
.text
.globl course_switch_stack
.type course_switch_stack, @function
course_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size course_switch_stack, .-course_switch_stack
)");

void Fiber::start(void (*body)(void*), void* with) {
  body_ = body;
  with_ = with;
  done_ = false;
  // As if begin() had been called: on its entry the stack pointer is 8 past a multiple of 16.
  void** top = reinterpret_cast<void**>(stack_ + bytes_) - 2;
  *top = reinterpret_cast<void*>(&Fiber::begin);
  here_ = top - 6;  // the six registers, whatever they hold
}

void Fiber::resume() {
  running = this;
  course_switch_stack(&caller_, here_);
}

void Fiber::pause() {
  Fiber& fiber = *running;
  course_switch_stack(&fiber.here_, fiber.caller_);
}

#else

void Fiber::start(void (*body)(void*), void* with) {
  body_ = body;
  with_ = with;
  done_ = false;
  getcontext(&here_);
  here_.uc_stack = {stack_, 0, bytes_};
  here_.uc_link = nullptr;
  makecontext(&here_, &Fiber::begin, 0);
}

void Fiber::resume() {
  running = this;
  swapcontext(&caller_, &here_);
}

void Fiber::pause() {
  Fiber& fiber = *running;
  swapcontext(&fiber.here_, &fiber.caller_);
}

#endif

}  // namespace course::emulate
