// What this rank spends its time on: every kernel, every collective, and the phases of a program that they lie in. Two
// readers: the table at the end of a training (time_table.hpp) and the trace (trace.hpp).
//
//   Activity& activity = session.watch();          // from now on, kernels and collectives are told of
//   {
//     const Phase phase(&activity, "forward");     // does nothing where the pointer is null
//     llama.forward(ids);
//   }
//
// One thread computes and communicates, so a moment belongs to one of three: a kernel runs; nothing runs and a
// collective is waited for; the rest. What a collective takes behind kernels costs nothing. Times are seconds of the
// host's steady clock.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/backend/observed.hpp"
#include "common/comm/comm.hpp"

namespace course {

// All calls of one kernel, or of one collective on one axis.
struct Tally {
  int64_t calls = 0;
  double seconds = 0;  // in the kernel, or waiting for the collective while nothing else was done
  double flops = 0;
  double bytes = 0;  // read and written by the kernel, or sent by the collective at the ring volume
  double span = 0;   // of a collective, from start to end
};

struct Totals {
  std::map<std::string, Tally, std::less<>> kernels, collectives;  // "matmul"; "tp all-gather"
  int64_t steps = 0, tokens = 0;
  double seconds = 0;  // of these steps together
};

class Activity {
 public:
  struct Event {
    enum Kind { Kernel, Collective, Wait, Phase } kind;
    const char* name;
    double begin, end;
    double flops, bytes;
    double waited;     // Collective: Tally's seconds
    bool alone;        // Collective: nothing else began or ended meanwhile
    const char* file;  // Collective: the line that called it
    unsigned line;
  };
  // A collective that is under way.
  struct Pending {
    double begin;
    int64_t ticks;
  };

  void kernel(const Kernel& kernel);
  Pending start(double begin);
  void finish(const Pending& pending, const std::string& name, double sent_bytes, const Site& at);

  // Adds what comes to `into`, until told another or null.
  void count_into(Totals* into) { totals_ = into; }

  // Keeps events from now on, `most` at the most; what comes later is only counted.
  void record(int64_t most);
  void stop_recording() { recording_ = false; }
  const std::vector<Event>& events() const { return events_; }  // in order of their ends
  int64_t left_out() const { return left_out_; }

 private:
  friend class Phase;
  void keep(const Event& event);

  Totals* totals_ = nullptr;
  double last_ = 0;    // when this rank last did something: a kernel's end, the start or end of a collective or phase
  int64_t ticks_ = 0;  // how often it did
  bool recording_ = false;
  int64_t most_ = 0, left_out_ = 0;
  std::vector<Event> events_;
  std::set<std::string> names_;  // of collectives; events point here
};

// A part of the program, from construction to destruction. One in which nothing was computed or sent leaves no event.
class Phase {
 public:
  Phase(Activity* activity, const char* name);  // the name outlives the activity
  Phase(const Phase&) = delete;
  ~Phase();

 private:
  Activity* activity_;
  const char* name_;
  double begin_ = 0;
  int64_t ticks_ = 0;
};

}  // namespace course
