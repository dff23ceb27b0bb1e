#include "common/support/time_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/support/table.hpp"

namespace course {
namespace {

using nlohmann::json;

// Kernels shorter than this share of the step stand together in one row.
constexpr double kSmall = 0.005;

json to_json(const std::map<std::string, Tally, std::less<>>& tallies) {
  json all = json::object();
  for (const auto& [name, t] : tallies) all[name] = {t.calls, t.seconds, t.flops, t.bytes, t.span};
  return all;
}

void add(std::map<std::string, TimeRow>& rows, const json& tallies, bool collective, double weight) {
  for (const auto& [name, t] : tallies.items()) {
    TimeRow& row = rows[name];
    row.name = name;
    row.collective = collective;
    row.calls += t[0].get<double>() * weight;
    row.ms += t[1].get<double>() * weight * 1e3;
    row.flops += t[2].get<double>() * weight;
    row.bytes += t[3].get<double>() * weight;
    row.span_ms += t[4].get<double>() * weight * 1e3;
  }
}

std::string fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string count(double calls) { return calls == std::round(calls) ? fixed(calls, 0) : fixed(calls, 1); }

std::string rate(const TimeRow& row) {
  const double ms = row.collective ? row.span_ms : row.ms;
  if (ms <= 0) return "";
  return row.flops > 0 ? fixed(row.flops / ms / 1e6, 1) + " GFLOP/s" : fixed(row.bytes / ms / 1e6, 2) + " GB/s";
}

}  // namespace

double TimeTable::imbalance() const {
  const double sum = std::accumulate(compute_ms.begin(), compute_ms.end(), 0.0);
  return sum > 0
             ? *std::max_element(compute_ms.begin(), compute_ms.end()) * static_cast<double>(compute_ms.size()) / sum
             : 1;
}

double TimeTable::hidden() const {
  double span = 0, waited = 0;
  for (const TimeRow& row : rows)
    if (row.collective) span += row.span_ms, waited += row.ms;
  return span > 0 ? 1 - waited / span : 0;
}

std::string TimeTable::str() const {
  Table table({cat("one step of ", steps), "|", "calls", "ms", "share", "|", "rate"});
  const auto line = [&](const TimeRow& row, const std::string& speed) {
    table.row(row.name, count(row.calls), fixed(row.ms, 2), fixed(100 * row.share, 1) + "%", speed);
  };
  TimeRow small{}, whole{};
  int folded = 0;
  for (const TimeRow& row : rows) {
    whole.share += row.share, whole.calls += row.calls;
    const bool fold = !row.collective && row.share < kSmall && &row != &rows.back();
    if (fold) {
      ++folded;
      small.calls += row.calls, small.ms += row.ms, small.share += row.share, small.bytes += row.bytes;
      continue;
    }
    if (&row == &rows.back()) {
      small.name = cat(folded, " short kernels");
      if (folded > 0) line(small, rate(small));
      table.row(row.name, 0, fixed(row.ms, 2), fixed(100 * row.share, 1) + "%", "");
    } else {
      line(row, rate(row));
    }
  }
  table.row("step", count(whole.calls), fixed(step_ms, 2), fixed(100 * whole.share, 1) + "%",
            group_digits(std::llround(tokens_per_s)) + " tokens/s");
  std::string text = table.str();
  if (compute_ms.size() == 1) return text;
  double span = 0;
  for (const TimeRow& row : rows) span += row.collective ? row.span_ms : 0;
  text += cat("collectives: ", fixed(span, 2), " ms from start to end, ", fixed(100 * hidden(), 1),
              "% of it behind kernels; ");
  return text + cat("computing, longest rank over mean: ", fixed(imbalance(), 3), "\n");
}

json TimeTable::json() const {
  nlohmann::json all = json::array();
  for (const TimeRow& row : rows)
    all.push_back({{"name", row.name},
                   {"calls", row.calls},
                   {"ms", row.ms},
                   {"share", row.share},
                   {"flops", row.flops},
                   {"bytes", row.bytes},
                   {"span_ms", row.span_ms},
                   {"collective", row.collective}});
  return {
      {"steps", steps}, {"step_ms", step_ms}, {"rows", all}, {"compute_ms", compute_ms}, {"imbalance", imbalance()}};
}

TimeTable time_table(const Totals& totals, Comm& world) {
  const json mine = {
      {"kernels", to_json(totals.kernels)}, {"collectives", to_json(totals.collectives)}, {"seconds", totals.seconds}};
  TimeTable table;
  table.steps = totals.steps;
  const double weight = 1.0 / static_cast<double>(std::max<int64_t>(1, totals.steps)), share = weight / world.size();
  std::map<std::string, TimeRow> rows;
  for (const std::string& text : world.all_gather_text(mine.dump())) {
    const json one = json::parse(text);
    add(rows, one["kernels"], false, share);
    add(rows, one["collectives"], true, share);
    table.step_ms += one["seconds"].get<double>() * share * 1e3;
    double compute = 0;
    for (const auto& [name, t] : one["kernels"].items()) compute += t[1].get<double>() * weight * 1e3;
    table.compute_ms.push_back(compute);
  }
  TimeRow other{"other"};
  other.ms = table.step_ms;
  for (const auto& [name, row] : rows) {
    table.rows.push_back(row);
    other.ms -= row.ms;
  }
  if (totals.seconds > 0) table.tokens_per_s = static_cast<double>(totals.tokens) / totals.seconds;
  std::sort(table.rows.begin(), table.rows.end(), [](const TimeRow& a, const TimeRow& b) { return a.ms > b.ms; });
  table.rows.push_back(other);
  for (TimeRow& row : table.rows) row.share = table.step_ms > 0 ? row.ms / table.step_ms : 0;
  return table;
}

}  // namespace course
