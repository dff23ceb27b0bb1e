#include "tests/exercises/check.hpp"

#include <cmath>
#include <fstream>

#include "common/box.hpp"
#include "common/rng.hpp"
#include "common/support/cli.hpp"
#include "tests/exercises/not_written.hpp"

namespace course {
namespace {

using nlohmann::json;

struct Ended {};  // a fault is known on all ranks

// A float as JSON has it: numbers, or "nan", "inf", "-inf".
json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

}  // namespace

void Check::begin(const std::string& what) {
  now_ = what;
  traffic_.clear();
  backend().reset_peak();
  held_ = backend().memory_use().now_of;
}

Tensor Check::random(const std::string& name, Shape shape) {
  const Rng rng(seed_, name);
  std::vector<float> values(numel(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(2 * rng.uniform(i) - 1);
  return backend().from_host(values, std::move(shape));
}

int64_t Check::random(const std::string& name, int64_t lowest, int64_t highest) {
  return lowest + static_cast<int64_t>(Rng(seed_, name).uniform(0) * static_cast<double>(highest - lowest + 1));
}

void Check::equal(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance) {
  if (!got.defined()) return conclude(what, "nothing", {{"got", "nothing"}, {"expected", show(expected.shape())}});
  const auto a = backend().to_host(got), b = backend().to_host(expected);
  json values = json::array({show(got.shape())});
  for (float x : a) values.push_back(number(x));
  if (got.shape() != expected.shape())
    return conclude(what, values, {{"got", show(got.shape())}, {"expected", show(expected.shape())}});
  double squares = 0;
  for (float x : b) squares += double(x) * x;
  const double rms = b.empty() ? 0 : std::sqrt(squares / static_cast<double>(b.size()));
  json fault;
  for (size_t i = 0; i < a.size() && fault.is_null(); ++i)
    if (!(std::abs(double(a[i]) - b[i]) <= tolerance * (std::abs(b[i]) + rms)))
      fault = {{"at", show(index_in(got.shape(), static_cast<int64_t>(i)))}, {"got", number(a[i])}, {"expected", number(b[i])}};
  conclude(what, values, fault);
}

void Check::equal(const std::string& what, double got, double expected, double tolerance) {
  const bool same = std::abs(got - expected) <= tolerance * std::abs(expected);
  conclude(what, json::array({number(got)}), same ? json() : json{{"got", number(got)}, {"expected", number(expected)}});
}

void Check::equal(const std::string& what, const std::string& got, const std::string& expected) {
  conclude(what, json::array({got}), got == expected ? json() : json{{"got", got}, {"expected", expected}});
}

void Check::sent(const std::map<Op, Sent>& expected) {
  std::string got, wanted;
  const auto add = [](std::string& to, Op op, const Sent& sent) {
    if (sent.calls > 0) to += cat(to.empty() ? "" : ", ", sent.calls, " ", name_of(op), " of ", sent.bytes, " bytes in all");
  };
  for (const Op op : all_ops) {
    add(got, op, traffic_.of(op));
    const auto found = expected.find(op);
    if (found != expected.end() && size() > 1) add(wanted, op, found->second);
  }
  equal("what this rank sends", got.empty() ? "nothing" : got, wanted.empty() ? "nothing" : wanted);
}

void Check::peak(MemoryClass c, int64_t most) {
  const int64_t bytes = backend().memory_use().peak_of[c] - held_[c];
  const std::string within = cat("at most ", most, " bytes");
  equal(cat("memory that this rank takes for ", name_of(c)), bytes > most ? cat(bytes, " bytes") : within, within);
}

void Check::conclude(const std::string& what, const json& got, json fault) {
  ++checks_;
  const auto all = session_->world().all_gather_text(json{got, fault}.dump());
  bool failed = false;
  for (int r = 0; r < size(); ++r) {
    const json said = json::parse(all[r]);
    values_.push_back({what, r, said[0]});
    if (said[1].is_null() || failed) continue;
    failed = true;
    fault_ = said[1];
    fault_["rank"] = r;
    fault_["what"] = what;
    fault_["with"] = now_;
  }
  if (failed) throw Ended();
}

int check_exercise(int argc, char** argv, const std::string& name, const std::function<void(Check&)>& body) {
  return run_program(argc, argv, [&](Session& session) {
    std::string report;
    int64_t seed = 1;
    Cli cli(name, "the check of this exercise");
    cli.add("--seed", seed, "of the inputs");
    cli.add("--report", report, "where the verdict goes, as JSON");
    cli.parse(session);
    Check check(session, seed);
    // Other for each seed, also where no input is: a report that was not made by this run does not have it.
    check.values_.push_back(json::array({"inputs", 0, json::array({check.random("inputs", 0, 1 << 30)})}));
    try {
      body(check);
    } catch (const Ended&) {
    } catch (const SharedError& error) {  // a stub's words, as together() hands them on too
      if (!std::string(error.what()).ends_with(kNotWritten)) throw;
      check.fault_ = {{"what", error.what()}, {"with", check.now_}};
      ++check.checks_;
    }
    const bool passed = check.checks_ > 0 && check.fault_.is_null();
    if (session.rank() == 0 && !report.empty())
      std::ofstream(report) << json{{"exercise", name},  {"ranks", session.size()},  {"checks", check.checks_},
                                    {"passed", passed}, {"fault", check.fault_}, {"values", check.values_}};
    if (!passed) throw EarlyExit{1};
  });
}

}  // namespace course
