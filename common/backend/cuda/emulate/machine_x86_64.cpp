// System V AMD64 ABI 1.0, section 3.2.1: a called function keeps rbx, rbp and r12 to r15. The last jump is a `ret` in all but
// name: the processor foresees a ret's target from the calls it saw, which is always wrong here, and costs 20 cycles.
#include <ucontext.h>

#include "common/backend/cuda/emulate/machine.hpp"

extern "C" void course_switch_stack(void** here, void* there);
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
  popq %rcx
  jmp *%rcx
.size course_switch_stack, .-course_switch_stack
)");

namespace course::emulate {

void* prepare_stack(char* stack, size_t bytes, void (*begin)()) {
  // As if begin() had been called: on its entry the stack pointer is 8 past a multiple of 16.
  void** top = reinterpret_cast<void**>(stack + bytes) - 2;
  *top = reinterpret_cast<void*>(begin);
  return top - 6;  // the six registers, whatever they hold
}

void switch_stack(void** here, void* there) { course_switch_stack(here, there); }

const char* refused_access(const void* signal_context) {
  return static_cast<const ucontext_t*>(signal_context)->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
}

}  // namespace course::emulate
