#include "common/support/terminal.hpp"

#include <unistd.h>

#include <cstdlib>

#include "common/check.hpp"

namespace course {

bool colours() { return (isatty(STDOUT_FILENO) || std::getenv("COURSE_COLOUR")) && !std::getenv("NO_COLOR"); }

std::string in_colour_of(int rank, const std::string& text) {
  static const char* palette[] = {"230;159;0",  "86;180;233", "0;158;115",   "240;228;66",
                                  "0;114;178", "213;94;0",   "204;121;167", "170;170;170"};
  if (!colours()) return text;
  return cat("\033[48;2;", palette[rank % 8], "m\033[30m", text, "\033[0m");
}

}  // namespace course
