// A Comm that tells an Activity when each call starts and ends.
#pragma once

#include "common/comm/decorator.hpp"
#include "common/support/activity.hpp"

namespace course {

// Around a Comm that it owns; the Activity outlives it. split() gives a Timed around the part. A collective ends when a poll
// first sees it complete. Work::wait() polls until then, on a GPU too: what is timed waits for the device. Groups of one are
// not told of: nothing is sent. Values of the host (see recorder.hpp) are named "host all-reduce", tensors by their axis, "tp
// all-reduce".
class Timed : public CommDecorator {
 public:
  Timed(std::unique_ptr<Comm> inner, Activity& activity) : CommDecorator(std::move(inner)), activity_(&activity) {}

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override {
    return std::make_unique<Timed>(inner().split(color, key, name, at), *activity_);
  }

  Work start(const Call& call) override;

 private:
  Activity* activity_;
};

}  // namespace course
