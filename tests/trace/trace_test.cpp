// The trace: tracks on which events nest, clocks that agree, a file that others can read.
#include "common/support/trace.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/support/timed.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

struct Watched {
  Activity activity;
  ObservedBackend be{backend()};
  Timed comm{world().split(0, world().rank(), "tp"), activity};
  Watched() {
    be.observe([this](const Kernel& kernel) { activity.kernel(kernel); });
    activity.record(1000);
  }
};

json events_of(const Activity& activity, int rank, int ranks, double zero) {
  return json::parse("[" + trace_events(activity, rank, ranks, zero) + "]");
}

std::vector<json> named(const json& events, const std::string& name) {
  std::vector<json> found;
  for (const json& e : events)
    if (e["ph"] == "X" && e["name"] == name) found.push_back(e);
  return found;
}

// "" where the events of each track nest or do not overlap; times are whole nanoseconds in three digits.
std::string badly_nested(const json& events) {
  struct Span {
    int64_t begin, end;
  };
  std::map<int, std::vector<Span>> tracks;
  for (const json& e : events) {
    if (e["ph"] != "X") continue;
    const auto ns = [](const json& us) { return std::llround(us.get<double>() * 1e3); };
    if (ns(e["dur"]) < 0) return "dur < 0: " + e.dump();
    tracks[e["tid"]].push_back({ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])});
  }
  for (auto& [tid, spans] : tracks) {
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<int64_t> open;
    for (const Span& s : spans) {
      while (!open.empty() && open.back() <= s.begin) open.pop_back();
      if (!open.empty() && s.end > open.back())
        return cat("track ", tid, ": ", s.begin, "..", s.end, " ends after ", open.back());
      open.push_back(s.end);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("trace: phases hold kernels and collectives; an empty phase leaves nothing") {
  Watched w;
  const int P = world().size(), r = world().rank();
  const double zero = seconds_now();
  Tensor x = random(cat("x", r), {50, 40});
  {
    const Phase step(&w.activity, "step");
    const Phase forward(&w.activity, "forward");
    w.be.add(x, x);
    w.comm.all_reduce(x).wait();
    w.be.scale(x, 2);
  }
  { const Phase nothing(&w.activity, "nothing"); }
  { const Phase unwatched(nullptr, "unwatched"); }
  const json events = events_of(w.activity, r, P, zero);
  CHECK(badly_nested(events) == "");
  for (const char* name : {"step", "forward", "add", "scale"}) CHECK(named(events, name).size() == 1);
  CHECK(named(events, "nothing").empty());
  CHECK(named(events, "add")[0]["args"]["bytes"] == 3 * 50 * 40 * 4);
  if (P == 1) return;
  const auto sent = named(events, "tp all-reduce");
  REQUIRE(sent.size() == 1);
  CHECK(sent[0]["tid"] == r);  // nothing happened meanwhile: it stands among the kernels
  CHECK(sent[0]["args"]["waited_us"] == sent[0]["dur"]);
  CHECK_THAT(sent[0]["args"]["at"].get<std::string>(), Catch::Contains("trace_test.cpp:"));
  CHECK(sent[0]["ts"] >= named(events, "forward")[0]["ts"]);
}

TEST_CASE("trace: collectives under way have tracks of their own, waits stand among the kernels") {
  const int P = world().size(), r = world().rank();
  if (P == 1) return;
  Watched w;
  Tensor x = random(cat("x", r), {500}), y = random(cat("y", r), {500}), z = random(cat("z", r), {500});
  const double zero = seconds_now();
  {
    const Phase backward(&w.activity, "backward");
    Work first = w.comm.all_reduce(x), second = w.comm.all_reduce(y);
    w.be.scale(z, 3);
    first.wait();
    {
      const Phase inner(&w.activity, "inner");
      w.be.scale(z, 3);
    }
    second.wait();
    w.comm.barrier().wait();
  }
  const json events = events_of(w.activity, r, P, zero);
  CHECK(badly_nested(events) == "");
  const auto sent = named(events, "tp all-reduce");
  REQUIRE(sent.size() == 2);
  CHECK(sent[0]["tid"] == r + P);
  CHECK(sent[1]["tid"] == r + 2 * P);
  CHECK(named(events, "wait for tp all-reduce").size() == 2);
  for (const json& wait : named(events, "wait for tp all-reduce")) CHECK(wait["tid"] == r);
  CHECK(named(events, "host barrier")[0]["tid"] == r);
  std::map<int, std::string> names;
  for (const json& e : events)
    if (e["name"] == "thread_name") names[e["tid"]] = e["args"]["name"];
  CHECK(names == std::map<int, std::string>{
                     {r, cat("rank ", r)}, {r + P, cat("rank ", r, " comm")}, {r + 2 * P, cat("rank ", r, " comm 2")}});
}

TEST_CASE("trace: what does not fit is counted") {
  Watched w;
  Tensor x = random("x", {5});
  w.activity.record(3);
  for (int i = 0; i < 5; ++i) w.be.scale(x, 2);
  CHECK(w.activity.events().size() == 3);
  CHECK(w.activity.left_out() == 2);
  w.activity.stop_recording();
  w.be.scale(x, 2);
  CHECK(w.activity.left_out() == 2);
}

TEST_CASE("trace: ranks of one machine share a clock; another machine's is measured") {
  const int r = world().rank();
  CHECK(clock_offset(world(), backend()) == 0);
  // Rank r's clock is 1000·r seconds late; the answer is right to half the time that a message takes there and back.
  const auto clock = [r] { return seconds_now() - 1000.0 * r; };
  CHECK(clock_offset(world(), backend(), clock, cat("machine ", r)) == Approx(-1000.0 * r).margin(30));
  CHECK(clock_offset(world(), backend(), clock, cat("machine ", r % 2)) == Approx(r % 2 ? -1000.0 * r : 0).margin(30));
}

TEST_CASE("trace: the file holds every rank's events, and says what is missing") {
  const int P = world().size(), r = world().rank();
  const TestFolder folder;
  const std::string path = world().broadcast_text((folder.path / "trace.json").string(), 0);
  if (r == 0) std::ofstream(path) << "an older trace";
  TraceFile file(path, world(), backend());
  if (r == 0) {
    std::string first;
    std::getline(std::ifstream(path), first);
    CHECK(first == "an older trace");  // a run that fails leaves it
  }
  Watched w;
  w.activity.record(4);
  Tensor x = random("x", {5});
  for (int i = 0; i < 2 + r; ++i) w.be.scale(x, 2);
  for (int i = 0; i < 2; ++i) w.be.add(x, x);
  w.activity.stop_recording();
  const std::string line = file.write(w.activity, world());
  if (r != 0) return;
  const json whole = json::parse(std::ifstream(path));
  const json& events = whole["traceEvents"];
  CHECK(badly_nested(events) == "");
  CHECK(whole["otherData"]["ranks"] == P);
  int64_t lost = 0;
  for (int rank = 0; rank < P; ++rank) {
    const int64_t out = std::max(0, rank);
    lost += out;
    CHECK(whole["otherData"]["left_out"][rank] == out);
    int64_t count = 0;
    for (const json& e : events)
      if (e["ph"] == "X" && e["tid"] == rank) {
        ++count;
        CHECK(e["ts"] >= 0);
      }
    CHECK(count == 4);
  }
  CHECK_THAT(line, Catch::Contains(cat(4 * P, " events of ", P)));
  if (P > 1) CHECK_THAT(line, Catch::Contains(cat("the last ", lost, " are left out")));
}

TEST_CASE("trace: a file that cannot be written is refused on every rank before anything runs") {
  CHECK_THROWS_WITH(TraceFile("no/such/folder/trace.json", world(), backend()),
                    Catch::Contains("--trace no/such/folder/trace.json: cannot be written"));
}
