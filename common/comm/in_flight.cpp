#include "common/comm/in_flight.hpp"

namespace course {

std::shared_ptr<Work> InFlight::add(Work work) {
  std::erase_if(works_, [](const auto& weak) { return weak.expired(); });  // nobody may ever poll
  auto shared = std::make_shared<Work>(std::move(work));
  works_.push_back(shared);
  return shared;
}

void InFlight::poll() {
  std::erase_if(works_, [](const std::weak_ptr<Work>& weak) {
    const auto work = weak.lock();
    return !work || work->test();
  });
}

}  // namespace course
