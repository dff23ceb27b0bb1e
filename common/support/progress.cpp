#include "common/support/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/clock.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

constexpr double kLiveEvery = 0.1, kPlainEvery = 10;  // seconds

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first so many code points.
std::string cut_to(const std::string& text, int64_t columns) {
  size_t at = 0;
  for (int64_t seen = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && seen++ == columns) break;
  }
  return text.substr(0, at);
}

}  // namespace

std::string clock_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) return "-:--:--";
  const auto whole = std::llround(seconds);
  char text[48];
  std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

std::string progress_line(const ProgressState& s) {
  const std::string total = std::to_string(s.total);
  const std::string n = std::to_string(s.n);
  char loss[64];
  std::snprintf(loss, sizeof(loss), std::abs(s.loss) < 1e6 ? "%.4f" : "%.4g", s.loss);
  const std::string rate =
      s.tokens_per_s >= 0 && s.tokens_per_s < 1e18 ? group_digits(std::llround(s.tokens_per_s)) : "-";
  const std::string blanks(total.size() > n.size() ? total.size() - n.size() : 0, ' ');
  return cat("step ", blanks, n, "/", total, "  loss ", loss, "  ", rate, " tokens/s  left ",
             clock_text(s.seconds_left));
}

ProgressOutput stderr_output() {
  ProgressOutput output;
  output.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  output.now = seconds_now;
  const std::string wish = variable("COURSE_PROGRESS");
  const bool terminal = ::isatty(STDERR_FILENO) && variable("TERM") != "dumb";
  output.live = wish == "live" || (wish != "plain" && terminal);
  output.columns = std::atoll(variable("COLUMNS").c_str());
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) output.columns = size.ws_col;
  return output;
}

Progress::Progress(int64_t total, bool enabled) : Progress(total, enabled, stderr_output()) {}

Progress::Progress(int64_t total, bool enabled, ProgressOutput output) : output_(std::move(output)), enabled_(enabled) {
  state_.total = total;
  began_ = output_.now();
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {  // nothing is left to tell it to
  }
}

void Progress::step(int64_t n, double loss, double tokens_per_s) {
  if (!enabled_ || finished_) return;
  const double now = output_.now();
  const bool first = !std::exchange(started_, true);
  if (first) {
    first_n_ = n;
    first_at_ = now;
  }
  state_ = {n, state_.total, loss, tokens_per_s, 0};
  state_.seconds_left = seconds_left(now);
  pending_ = true;
  const bool due = now - written_at_ >= (output_.live ? kLiveEvery : kPlainEvery);
  if (!first && !due && n != state_.total) return;
  written_at_ = now;
  output_.live ? draw() : print();
}

// The first step is slower than the rest (pools fill, pages come in), so it counts only while there is no other.
double Progress::seconds_left(double now) const {
  const auto steps = static_cast<double>(state_.total - state_.n);
  if (steps <= 0) return 0;
  if (state_.n > first_n_) return steps * (now - first_at_) / static_cast<double>(state_.n - first_n_);
  return steps * (first_at_ - began_);
}

void Progress::note(const std::string& line) {
  if (!enabled_) return;
  const bool redraw = output_.live && width_ > 0;
  clear();
  output_.write(line + "\n");
  if (redraw) draw();
}

void Progress::finish() {
  if (!enabled_ || std::exchange(finished_, true)) return;
  if (output_.live)
    clear();
  else if (pending_)
    print();
}

void Progress::draw() {
  std::string line = progress_line(state_);
  if (output_.columns > 1) line = cut_to(line, output_.columns - 1);  // a full line would wrap
  const int64_t width = width_of(line);
  output_.write("\r" + line + std::string(static_cast<size_t>(std::max<int64_t>(0, width_ - width)), ' '));
  width_ = width;
}

void Progress::clear() {
  if (width_ > 0) output_.write("\r" + std::string(static_cast<size_t>(width_), ' ') + "\r");
  width_ = 0;
}

void Progress::print() {
  output_.write(progress_line(state_) + "\n");
  pending_ = false;
}

}  // namespace course
