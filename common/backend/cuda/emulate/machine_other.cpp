// By POSIX's ucontext. It saves the signal mask too, by a system call, so it is slower.
#include <ucontext.h>

#include <new>

#include "common/backend/cuda/emulate/machine.hpp"

namespace course::emulate {

void* prepare_stack(char* stack, size_t bytes, void (*begin)()) {
  const size_t below = (bytes - sizeof(ucontext_t)) / 64 * 64;  // the context lies above what begin() uses
  const auto context = new (stack + below) ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = below;
  context->uc_link = nullptr;
  makecontext(context, begin, 0);
  return context;
}

void switch_stack(void** here, void* there) {
  ucontext_t mine;  // lies on the stack that is left, and so as long as it is needed
  *here = &mine;
  swapcontext(&mine, static_cast<ucontext_t*>(there));
}

const char* refused_access(const void*) { return "touches"; }

}  // namespace course::emulate
