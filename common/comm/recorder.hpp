// A Comm that writes down what passes: calls, bytes a ring would send, and seconds, by collective and axis.
//
//   Traffic traffic;
//   Recorder world(session.world(), traffic);
//   DeviceMesh mesh(world, {{"tp", 2}});          // its groups are recorded too, under the axis' name
//   mlp.forward(x);
//   traffic.count(Op::AllReduce, "tp");           // 1
//
// Small values of the host (doubles, 64-bit integers, bytes: losses, norms, texts) are counted apart, under "host".
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/comm/decorator.hpp"

namespace course {

struct Sent {
  int64_t calls = 0;
  double bytes = 0;    // that this rank sends at the ring volume: 2(P-1)/P·n for an all-reduce, and so on
  double seconds = 0;  // from the start of each call to the end of its wait
  Sent& operator+=(const Sent& more);
};

bool is_tensor_type(DType type);  // else it is a value of the host
// The bytes one rank sends on a ring of `ranks` for a collective whose whole is n bytes.
double ring_bytes(Op op, double n, int ranks);
// What one rank sends for this call of its own.
double sent_bytes(const Call& call, int rank, int ranks);

class Traffic {
 public:
  void add(Op op, const std::string& axis, const Sent& sent) { sent_[{axis, op}] += sent; }
  void clear() { sent_.clear(); }
  // Of one kind on one axis; an empty axis means all but "host".
  Sent of(Op op, const std::string& axis = "") const;
  int64_t count(Op op, const std::string& axis = "") const { return of(op, axis).calls; }
  double bytes(Op op, const std::string& axis = "") const { return of(op, axis).bytes; }
  // Everything on one axis, or on all.
  Sent total(const std::string& axis = "") const;
  // What has passed since an earlier copy of this.
  Traffic since(const Traffic& before) const;
  const std::map<std::pair<std::string, Op>, Sent>& all() const { return sent_; }

 private:
  std::map<std::pair<std::string, Op>, Sent> sent_;
};

// Around a Comm of someone else's; both it and the Traffic must outlive the Recorder. split() gives a Recorder around
// the part.
class Recorder : public CommDecorator {
 public:
  Recorder(Comm& inner, Traffic& traffic) : CommDecorator(inner), traffic_(&traffic) {}
  Recorder(std::unique_ptr<Comm> inner, Traffic& traffic) : CommDecorator(std::move(inner)), traffic_(&traffic) {}

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override {
    return std::make_unique<Recorder>(inner().split(color, key, name, at), *traffic_);
  }

  Work start(const Call& call) override;

 private:
  Traffic* traffic_;
};

}  // namespace course
