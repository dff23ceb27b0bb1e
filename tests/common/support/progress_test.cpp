#include "common/support/progress.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

using namespace course;

namespace {

// A screen and a clock that the test moves.
struct Fake {
  std::string text;
  double time = 100;
  ProgressOutput output(bool live, int64_t columns = 0) {
    return {[this](std::string_view more) { text += more; }, [this] { return time; }, live, columns};
  }
  int lines() const { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

  // What a terminal shows in its last line after all that was written.
  std::string last_line() const {
    std::string line;
    size_t at = 0;
    for (char c : text) {
      if (c == '\n') line.clear();
      if (c == '\n' || c == '\r') {
        at = 0;
        continue;
      }
      if (at < line.size())
        line[at] = c;
      else
        line += c;
      ++at;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }
};

}  // namespace

TEST_CASE("the line says where, how well and how long") {
  CHECK(progress_line({12, 200, 4.12341, 1234.4, 83}) == "step  12/200  loss 4.1234  1,234 tokens/s  left 0:01:23");
  CHECK(progress_line({200, 200, 1e9, 0, 0}) == "step 200/200  loss 1e+09  0 tokens/s  left 0:00:00");
  CHECK(progress_line({1, 5, NAN, NAN, NAN}) == "step 1/5  loss nan  - tokens/s  left -:--:--");
  CHECK(progress_line({1, 5, INFINITY, INFINITY, -1}) == "step 1/5  loss inf  - tokens/s  left -:--:--");
}

TEST_CASE("a clock") {
  CHECK(clock_text(0) == "0:00:00");
  CHECK(clock_text(59.6) == "0:01:00");
  CHECK(clock_text(3661) == "1:01:01");
  CHECK(clock_text(360000) == "100:00:00");
  CHECK(clock_text(-1) == "-:--:--");
  CHECK(clock_text(INFINITY) == "-:--:--");
}

TEST_CASE("in a log: the first step, one every ten seconds, the last") {
  Fake fake;
  {
    Progress progress(100, true, fake.output(false));
    for (int n = 1; n <= 100; ++n) {
      fake.time += 0.25;
      progress.step(n, 1, 10);
    }
    progress.finish();
  }
  CHECK(fake.text ==
        "step   1/100  loss 1.0000  10 tokens/s  left 0:00:25\n"
        "step  41/100  loss 1.0000  10 tokens/s  left 0:00:15\n"
        "step  81/100  loss 1.0000  10 tokens/s  left 0:00:05\n"
        "step 100/100  loss 1.0000  10 tokens/s  left 0:00:00\n");
}

TEST_CASE("a run that ends early still says its last step, once") {
  Fake fake;
  Progress progress(100, true, fake.output(false));
  progress.step(1, 1, 10);
  progress.step(2, 0.5, 10);
  CHECK(fake.lines() == 1);
  progress.finish();
  progress.finish();
  progress.step(3, 0.5, 10);
  CHECK(fake.lines() == 2);
  CHECK(fake.text.find("step   2/100  loss 0.5000") != std::string::npos);
}

TEST_CASE("time left of a resumed run counts from where it resumed") {
  Fake fake;
  Progress progress(200, true, fake.output(true));
  fake.time += 50;  // a slow first step
  progress.step(101, 1, 10);
  for (int n = 102; n <= 110; ++n) {
    fake.time += 2;
    progress.step(n, 1, 10);
  }
  CHECK(fake.last_line() == "step 110/200  loss 1.0000  10 tokens/s  left 0:03:00");
}

TEST_CASE("on a terminal: one line, rewritten, at most ten times a second, gone at the end") {
  Fake fake;
  {
    Progress progress(1000, true, fake.output(true));
    for (int n = 1; n <= 1000; ++n) {
      fake.time += 0.01;
      progress.step(n, n < 500 ? 123456 : 1, 10);
    }
    CHECK(fake.lines() == 0);
    CHECK(fake.last_line() == "step 1000/1000  loss 1.0000  10 tokens/s  left 0:00:00");
    const auto drawn = std::count(fake.text.begin(), fake.text.end(), '\r');
    CHECK(drawn > 80);
    CHECK(drawn < 110);
  }
  CHECK(fake.lines() == 0);
  CHECK(fake.last_line() == "");
  CHECK(fake.text.back() == '\r');
}

TEST_CASE("a note stands above the live line") {
  Fake fake;
  Progress progress(10, true, fake.output(true));
  progress.step(1, 1, 10);
  progress.note("saved");
  CHECK(fake.text.find("\rsaved\n\rstep") != std::string::npos);
  CHECK(fake.last_line() == "step  1/10  loss 1.0000  10 tokens/s  left 0:00:00");
  progress.finish();
  progress.note("done");
  CHECK(fake.text.substr(fake.text.size() - 6) == "\rdone\n");
}

TEST_CASE("a line longer than the terminal is cut, so that it stays one line") {
  Fake fake;
  Progress progress(10, true, fake.output(true, 12));
  progress.step(1, 1, 10);
  CHECK(fake.last_line() == "step  1/10");
  CHECK(fake.text.size() == 12);  // \r and 11 columns
}

TEST_CASE("--quiet writes nothing") {
  Fake fake;
  {
    Progress progress(10, false, fake.output(true));
    progress.step(1, 1, 10);
    progress.note("saved");
  }
  CHECK(fake.text.empty());
}
