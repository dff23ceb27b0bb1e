// A fiber: a stack of its own and the place where to go on on it. Switching saves the registers that a called function must
// keep and changes the stack (machine.hpp). Only one fiber of a thread runs at a time.
#pragma once

#include <cstddef>

namespace course::emulate {

class Fiber {
 public:
  // Below the stack lies a page that nobody may touch. `colour` counts fibers: their stacks begin at different places of a
  // page, or those of a whole block would meet in the same few lines of the processor's cache.
  explicit Fiber(size_t stack_bytes, size_t colour = 0);
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
  size_t bytes_, above_;  // the stack begins so many bytes below its upper end
  void (*body_)(void*) = nullptr;
  void* with_ = nullptr;
  bool done_ = true;
  void *here_ = nullptr, *caller_ = nullptr;  // where it goes on, and who resumed it
};

}  // namespace course::emulate
