#include "common/support/timed.hpp"

#include "common/clock.hpp"
#include "common/comm/recorder.hpp"

namespace course {

Work Timed::start(const Call& call) {
  if (size() == 1) return inner().start(call);
  const Activity::Pending pending = activity_->start(seconds_now());
  auto work = std::make_shared<Work>(inner().start(call));
  const std::string name = cat(is_tensor_type(call.whole().type) ? this->name() : "host", " ", name_of(call.op));
  // A call is timed to its end, so a GPU's is waited for as its kernels are.
  return Work([this, work, pending, name, sent = sent_bytes(call, rank(), size()), at = call.at] {
    const bool done = work->test();
    if (done) activity_->finish(pending, name, sent, at);
    return done;
  });
}

}  // namespace course
