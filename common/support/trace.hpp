// --trace FILE: what every rank did when, as one file for https://ui.perfetto.dev or chrome://tracing.
//
//   rank 0        phases, and in them kernels, and collectives that were waited for at once
//   rank 0 comm   collectives that were under way while the rank did something else
//   rank 1        ...
//
// Format: "Trace Event Format" (Chromium project), complete events ("ph": "X"), times in microseconds. Events of one
// track nest or do not overlap. ./course trace FILE sums it up.
#pragma once

#include <functional>
#include <string>

#include "common/clock.hpp"
#include "common/support/activity.hpp"

namespace course {

// What is kept of a rank at the most; later events are left out, and the file says how many.
constexpr int64_t kMaxTraceEvents = 200'000;

class TraceFile {
 public:
  // Sees that the file can be written, without touching what it holds, and brings the ranks' clocks together.
  // Everything outlives it. Collective over world; throws SharedError where rank 0 cannot write.
  TraceFile(std::string path, Comm& world, Backend& backend);
  // Gathers the events on rank 0, rank by rank, and writes them. Collective. Throws SharedError where it cannot be
  // written. Returns a line that says what was written and what was left out.
  std::string write(const Activity& activity, Comm& world);

 private:
  std::string path_;
  Backend* backend_;
  double zero_ = 0;    // of the file's times: before any rank's first event, on rank 0's clock
  double offset_ = 0;  // this rank's clock minus rank 0's
};

// This rank's steady clock minus that of rank 0 of `world`. Ranks of one machine share it: it is the kernel's, which
// has an id of its boot. For another machine the offset is measured by messages there and back, the shortest of 16:
// right to half their time. `clock` and `machine` are the real ones unless a test says otherwise. Collective.
double clock_offset(Comm& world, Backend& backend, const std::function<double()>& clock = seconds_now);
double clock_offset(Comm& world, Backend& backend, const std::function<double()>& clock, const std::string& machine);

// The events of one rank as lines of JSON, without the commas between ranks. P ranks; times from `zero` on the clock of
// `activity`.
std::string trace_events(const Activity& activity, int rank, int ranks, double zero);

}  // namespace course
