// Text put together by nothing that a signal handler must not call: no malloc, no stdio. What has no room is left out.
//
//   char room[200];
//   (HandlerSafeLine(room, sizeof room) << "rank " << rank << ": ended\n").write(STDERR_FILENO);
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace course {

class HandlerSafeLine {
 public:
  HandlerSafeLine(char* into, size_t room) : into_(into), room_(room) { into_[0] = 0; }
  HandlerSafeLine& operator<<(const char* text) { return at_most(room_, text); }
  HandlerSafeLine& operator<<(int64_t n) {
    char digits[24];
    int at = sizeof digits;
    digits[--at] = 0;
    const bool below = n < 0;
    do digits[--at] = static_cast<char>('0' + (n < 0 ? -(n % 10) : n % 10));
    while ((n /= 10) != 0);
    if (below) digits[--at] = '-';
    return *this << digits + at;
  }
  HandlerSafeLine& at_most(size_t n, const char* text) {
    while (n-- > 0 && *text && size_ + 1 < room_) into_[size_++] = *text++;
    into_[size_] = 0;
    return *this;
  }
  HandlerSafeLine& seconds(double s) {  // "2.5 s"
    const auto tenths = static_cast<int64_t>(std::max(s, 0.0) * 10);
    return *this << tenths / 10 << "." << tenths % 10 << " s";
  }
  const char* text() const { return into_; }
  void write(int file) const {  // in one piece, if the system takes it so
    for (size_t at = 0; at < size_;) {
      const ssize_t n = ::write(file, into_ + at, size_ - at);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) at += static_cast<size_t>(n);
    }
  }

 private:
  char* into_;
  size_t room_, size_ = 0;
};

}  // namespace course
