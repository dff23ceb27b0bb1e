// The table each chapter ends with: what was sent, beside what the formula says.
//
//   SentTable sent;
//   sent.add("row split", traffic.total(), P > 1 ? 1 : 0, 2.0 * (P - 1) / P * M * N * 4);
//   session.out() << sent.str();
//   sent.check(world);
#pragma once

#include <string>

#include "common/comm/recorder.hpp"
#include "common/support/table.hpp"

namespace course {

class SentTable {
 public:
  // A row: the calls and bytes of this rank that a Recorder counted, and those of the formula.
  void add(const std::string& what, const Sent& measured, int64_t calls, double bytes);

  // This rank's rows, for rank 0 to print.
  std::string str() const { return table_.str(); }

  // Throws SharedError, naming the first row, if any rank sent other than its formula says. Every rank of the group
  // calls.
  void check(Comm& comm) const;

 private:
  Table table_{{"sent by each rank", "|", "calls: measured", "formula", "|", "bytes: measured", "formula"}};
  std::string wrong_;
};

// "1,234" where bytes are whole; "66.7" where a third of them is not.
std::string show_bytes(double bytes);

}  // namespace course
