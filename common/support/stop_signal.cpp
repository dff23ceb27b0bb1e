#include "common/support/stop_signal.hpp"

#include <csignal>

#include "common/signal_stack.hpp"

namespace course {
namespace {

volatile std::sig_atomic_t received = 0;
bool answered = false;  // a stop was agreed on
struct sigaction before[2];
constexpr int signals[] = {SIGINT, SIGTERM};

void note(int signal) {
  if (received && signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);  // delivered when this handler returns
  }
  if (!received) received = signal;
}

}  // namespace

StopSignal::StopSignal() {
  received = 0, answered = false;
  struct sigaction action {};
  action.sa_handler = note;
  have_signal_stack();
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // what is being written goes on
  for (int i = 0; i < 2; ++i) {
    sigaction(signals[i], &action, &before[i]);
    if (before[i].sa_handler == SIG_IGN) sigaction(signals[i], &before[i], nullptr);  // of a background job: it stays ignored
  }
}

StopSignal::~StopSignal() {
  if (answered) return;  // the program is ending: the same signal may still be on its way to this rank
  for (int i = 0; i < 2; ++i) sigaction(signals[i], &before[i], nullptr);
  if (received) raise(received);
}

int StopSignal::agreed(Comm& world, Site at) {
  const int signal = static_cast<int>(world.max(received, at));
  answered = answered || signal != 0;
  return signal;
}

}  // namespace course
