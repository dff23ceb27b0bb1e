// How long a wait has lasted. Time counts while someone polls: a rank that starts a call, computes for a minute and
// then asks for it has not waited for a minute, and neither has one whose machine slept.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include "common/check.hpp"

namespace course {

class Patience {
 public:
  // To be called at each poll that found nothing; gives the seconds waited so far.
  double waited() {
    const auto now = Clock::now();
    if (last_ != Clock::time_point())
      waited_ += std::min(std::chrono::duration<double>(now - last_).count(), kLongestStep);
    last_ = now;
    return waited_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kLongestStep = 0.1;  // seconds; a waiting rank polls far more often
  Clock::time_point last_ = {};
  double waited_ = 0;
};

// What a wait that has come to its limit says: "waited 60 s for all-reduce on tp (rank 1 of 4): another rank ...".
inline std::string waited_in_vain(double seconds, const std::string& call, const std::string& group) {
  return cat("waited ", seconds, " s for ", call, " on ", group, ": another rank did not come; --timeout sets the limit");
}

}  // namespace course
