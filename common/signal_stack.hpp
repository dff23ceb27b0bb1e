// A stack for signal handlers (SA_ONSTACK). Whoever catches a signal that may come at any moment needs it: oneDNN's matrix
// product points the stack pointer into the heap while it computes, so a handler on the stack that is there writes over
// other memory.
#pragma once

namespace course {

// The calling thread has one from now on; nothing where it has, as under AddressSanitizer. Of one thread, the main one: the
// system gives it the signals that are sent to the process.
void have_signal_stack();

}  // namespace course
