#include "common/support/activity.hpp"

#include <algorithm>

#include "common/clock.hpp"

namespace course {
namespace {

Tally& tally(std::map<std::string, Tally, std::less<>>& of, std::string_view name) {
  const auto found = of.find(name);
  return found != of.end() ? found->second : of[std::string(name)];
}

}  // namespace

void Activity::kernel(const Kernel& kernel) {
  last_ = kernel.end;
  ++ticks_;
  if (totals_) {
    Tally& sum = tally(totals_->kernels, kernel.name);
    ++sum.calls;
    sum.seconds += kernel.end - kernel.begin;
    sum.flops += kernel.flops;
    sum.bytes += kernel.bytes;
  }
  keep({Event::Kernel, kernel.name, kernel.begin, kernel.end, kernel.flops, kernel.bytes});
}

Activity::Pending Activity::start(double begin) {
  last_ = begin;
  return {begin, ++ticks_};
}

void Activity::finish(const Pending& pending, const std::string& name, double sent_bytes, const Site& at) {
  const double end = seconds_now(), waited = end - std::max(last_, pending.begin);
  const bool alone = ticks_ == pending.ticks;
  if (totals_) {
    Tally& sum = tally(totals_->collectives, name);
    ++sum.calls;
    sum.seconds += waited;
    sum.bytes += sent_bytes;
    sum.span += end - pending.begin;
  }
  if (recording_) {
    const char* kept = names_.insert(name).first->c_str();
    if (!alone) keep({Event::Wait, kept, end - waited, end});
    keep({Event::Collective, kept, pending.begin, end, 0, sent_bytes, waited, alone, at.file_name(), at.line()});
  }
  last_ = end;
  ++ticks_;
}

void Activity::record(int64_t most) {
  recording_ = true;
  most_ = most;
}

void Activity::keep(const Event& event) {
  if (!recording_) return;
  if (static_cast<int64_t>(events_.size()) < most_)
    events_.push_back(event);
  else
    ++left_out_;
}

Phase::Phase(Activity* activity, const char* name) : activity_(activity), name_(name) {
  if (!activity_) return;
  begin_ = activity_->last_ = seconds_now();
  ticks_ = ++activity_->ticks_;
}

Phase::~Phase() {
  if (!activity_) return;
  const bool empty = activity_->ticks_ == ticks_;
  activity_->last_ = seconds_now();
  ++activity_->ticks_;
  if (!empty) activity_->keep({Activity::Event::Phase, name_, begin_, activity_->last_});
}

}  // namespace course
