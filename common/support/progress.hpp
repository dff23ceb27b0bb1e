// What a long run says while it runs: where it is, how well it does, when it ends.
//
//   Progress progress(steps, rank == 0 && !quiet);
//   for (int64_t n = 1; n <= steps; ++n) progress.step(n, loss, tokens_per_s);
//   progress.finish();
//
// On a terminal one live line, rewritten in place and gone at the end; elsewhere (a log, a pipe) whole lines: the
// first, the last, and one at most every 10 seconds between. All of it goes to stderr, so a program's output stays
// clean. Without colours and without escape codes, so NO_COLOR has nothing to change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace course {

struct ProgressState {
  int64_t n = 0, total = 0;
  double loss = 0, tokens_per_s = 0;
  double seconds_left = -1;  // not known yet: negative or nan
};

std::string progress_line(const ProgressState& state);  // "step  12/200  loss 4.1234  1,234 tokens/s  left 0:01:23"
std::string clock_text(double seconds);                 // "0:01:23", "-:--:--" when not known

// Where the lines go. Tests put their own in; everyone else takes the default.
struct ProgressOutput {
  std::function<void(std::string_view)> write;  // every call is whole: it may be flushed
  std::function<double()> now;                  // seconds, monotonic
  bool live = false;                            // a terminal: \r rewrites the line
  int64_t columns = 0;                          // a live line is cut here, or \r would miss its start; 0: not known
};

// stderr. Live when it is a terminal that can (TERM is not dumb). COURSE_PROGRESS=live or plain decides instead: under
// mpirun a rank's stderr is a pipe, and only who started mpirun knows what is behind it; COLUMNS then gives the width.
ProgressOutput stderr_output();

class Progress {
 public:
  Progress(int64_t total, bool enabled);  // not enabled: nothing is ever written (--quiet, and every rank but one)
  Progress(int64_t total, bool enabled, ProgressOutput output);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // finishes, so that an error's message has its own line

  // Step n of total is done. The first n may be any: a resumed run starts late, and time left counts from there.
  void step(int64_t n, double loss, double tokens_per_s);
  void note(const std::string& line);  // a line of its own, above the live one
  void finish();                       // may be called twice

 private:
  double seconds_left(double now) const;
  void draw();
  void clear();
  void print();

  ProgressOutput output_;
  bool enabled_;
  ProgressState state_;
  double began_ = 0, first_at_ = 0;  // when we started, and when the first step was done
  double written_at_ = 0;
  int64_t first_n_ = 0;
  int64_t width_ = 0;    // of the live line on the screen
  bool started_ = false, pending_ = false, finished_ = false;  // pending_: the last state has not been written
};

}  // namespace course
