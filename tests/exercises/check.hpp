// What the check of an exercise is made of: it calls the learner's functions on many inputs, compares, and counts what was
// sent. Each check is a program of its own, linked with a learner's file, the solution or a wrong answer.
//
//   int main(int argc, char** argv) {
//     return course::check_exercise(argc, argv, "row_split", [](course::Check& check) {
//       check.begin("3x5 by 5x2");
//       const Tensor y = row_split(check.backend(), check.world(), x_r, w_r);
//       check.equal("Y", y, expected);
//       check.sent({{Op::AllReduce, {1, bytes}}});
//     });
//   }
//
// Collective: every rank makes the same calls. The first difference ends the check on all ranks. The program takes --seed
// (other inputs for other seeds) and --report FILE, where rank 0 writes what was compared, as JSON:
//
//   {"exercise": "row_split", "ranks": 2, "checks": 7, "passed": false, "fault": {...}, "values": [[what, rank, [...]], ...]}
//
// `values` begin with a number of the seed; then the learner's, in the order of the comparisons: two files with the same fault
// have the same. Exit code 0 where all agrees, else 1.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "common/comm/recorder.hpp"
#include "common/support/session.hpp"

namespace course {

class Check {
 public:
  Backend& backend() { return session_->backend(); }
  Comm& world() { return recorder_; }  // what passes is counted
  int rank() const { return session_->rank(); }
  int size() const { return session_->size(); }

  // What comes now, with its sizes: it stands in the words of a difference. Counts anew what is sent.
  void begin(const std::string& what);

  // Values in [-1, 1) by seed, name and index: the same on every rank. Put the rank in the name for others.
  Tensor random(const std::string& name, Shape shape);
  // lowest..highest, both in it.
  int64_t random(const std::string& name, int64_t lowest, int64_t highest);

  // |got - expected| ≤ tolerance·(|expected| + rms(expected)), element by element. The shape too.
  void equal(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance = 1e-5);
  void equal(const std::string& what, double got, double expected, double tolerance = 0);
  void equal(const std::string& what, const std::string& got, const std::string& expected);
  // What this rank has sent since begin(); a number of the host counts as a call.
  double bytes(Op op) const { return traffic_.bytes(op); }
  int64_t calls(Op op) const { return traffic_.count(op) + traffic_.count(op, "host"); }
  // Since begin(): so many calls, so many bytes at the ring volume, on this rank. No other collective.
  void sent(const std::map<Op, Sent>& expected);
  // Since begin(): so many bytes of this class at the most, at any time, beyond what was held then, on this rank.
  void peak(MemoryClass c, int64_t most);

 private:
  friend int check_exercise(int argc, char** argv, const std::string& name, const std::function<void(Check&)>& body);
  Check(Session& session, int64_t seed) : session_(&session), recorder_(session.world(), traffic_), seed_(seed) {}
  // Collective: ends the check where `fault` holds something on any rank; the lowest one's is kept.
  void conclude(const std::string& what, const nlohmann::json& got, nlohmann::json fault);

  Session* session_;
  Traffic traffic_;
  BytesByClass held_;
  Recorder recorder_;
  int64_t seed_, checks_ = 0;
  std::string now_;
  nlohmann::json values_ = nlohmann::json::array(), fault_;
};

int check_exercise(int argc, char** argv, const std::string& name, const std::function<void(Check&)>& body);

}  // namespace course
