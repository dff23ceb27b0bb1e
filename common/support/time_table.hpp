// Where the steps' time went, as a table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/support/activity.hpp"

namespace course {

// One line of the table: a kernel, a collective, or the rest of the step. Numbers are of one step of one rank.
struct TimeRow {
  std::string name;
  double calls, ms, share;       // share of the step's ms; all rows together are 1
  double flops, bytes, span_ms;  // as in Tally
  bool collective;
};

struct TimeTable {
  int64_t steps = 0;
  double step_ms = 0, tokens_per_s = 0;
  std::vector<TimeRow> rows;       // the longest first; the last is "other": neither in a kernel nor waiting
  std::vector<double> compute_ms;  // in kernels, by rank

  double imbalance() const;  // the longest compute_ms over their mean; 1 where nothing was computed
  double hidden() const;     // of the time of collectives from start to end, the part that was not waited for
  std::string str() const;   // the table, then a line on communication and one on balance
  nlohmann::json json() const;
};

// The mean over the ranks of `world`. Collective; every rank gets the table.
TimeTable time_table(const Totals& totals, Comm& world);

}  // namespace course
