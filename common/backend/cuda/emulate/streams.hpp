// Who has waited for whom. Work on one stream is done in order; between streams, and between a stream and the host, only an
// event or a synchronisation makes an order. Everything runs at once here, so a wait that is missing would never show in a
// value: it is found by clocks. Each stream counts its work, and knows how far it has waited for each other one.
// Lamport, "Time, clocks, and the ordering of events", CACM 1978; vector clocks as in Fidge, 1988.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace course::emulate {

// The nth piece of work of a stream, and what it was.
struct Stamp {
  int stream = -1;  // -1: none
  uint64_t number = 0;
  std::string what;
};

class Clock {
 public:
  bool knows(const Stamp& work) const {
    return work.stream < 0 || (work.stream < static_cast<int>(seen_.size()) && seen_[work.stream] >= work.number);
  }
  void merge(const Clock& other) {
    if (seen_.size() < other.seen_.size()) seen_.resize(other.seen_.size());
    for (size_t i = 0; i < other.seen_.size(); ++i) seen_[i] = std::max(seen_[i], other.seen_[i]);
  }
  Stamp next(int stream, std::string what) {
    if (static_cast<int>(seen_.size()) <= stream) seen_.resize(stream + 1);
    return {stream, ++seen_[stream], std::move(what)};
  }

 private:
  std::vector<uint64_t> seen_;
};

}  // namespace course::emulate
