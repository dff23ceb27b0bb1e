// A fiber: a stack of its own and the place where to go on on it. Switching saves the registers that a called function must
// keep and changes the stack, about 10 ns; no system call, and only one fiber of a thread runs at a time.
// System V AMD64 ABI 1.0, section 3.2.1; on other processors ucontext does the same, more slowly.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace course::emulate {

class Fiber {
 public:
  explicit Fiber(size_t stack_bytes);  // below the stack lies a page that nobody may touch
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // The next resume() begins body(with). What the fiber did before is forgotten, its objects are not destroyed.
  void start(void (*body)(void*), void* with);
  void resume();        // runs it until it pauses or body returns; not from inside a fiber
  static void pause();  // from inside a fiber: back to who resumed it
  bool done() const { return done_; }

 private:
  static void begin();

  char* stack_;
  size_t bytes_;
  void (*body_)(void*) = nullptr;
  void* with_ = nullptr;
  bool done_ = true;
#if defined(__x86_64__)
  void *here_ = nullptr, *caller_ = nullptr;  // stack pointers
#else
  ucontext_t here_, caller_;
#endif
};

}  // namespace course::emulate
