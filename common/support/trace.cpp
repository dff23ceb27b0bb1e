#include "common/support/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/support/session.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;
using Event = Activity::Event;

const char* category(Event::Kind kind) {
  switch (kind) {
    case Event::Kernel:
      return "kernel";
    case Event::Collective:
      return "collective";
    case Event::Wait:
      return "wait";
    case Event::Phase:
      return "phase";
  }
  return "";
}

// Nanoseconds, whole, so that what nests still does when it is written with three digits.
int64_t nanoseconds(double t, double zero) { return std::llround((t - zero) * 1e9); }

std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%s%lld.%03lld", ns < 0 ? "-" : "", static_cast<long long>(std::abs(ns) / 1000),
                static_cast<long long>(std::abs(ns) % 1000));
  return text;
}

std::string arguments(const Event& e) {
  switch (e.kind) {
    case Event::Kernel:
      return cat(R"(,"args":{"flops":)", std::llround(e.flops), R"(,"bytes":)", std::llround(e.bytes), "}");
    case Event::Collective:
      return cat(R"(,"args":{"sent_bytes":)", std::llround(e.bytes), R"(,"waited_us":)",
                 microseconds(std::llround(e.waited * 1e9)), R"(,"at":)",
                 nlohmann::json(cat(e.file, ":", e.line)).dump(), "}");
    default:
      return "";
  }
}

std::string name_thread(int tid, const std::string& name, int order) {
  const nlohmann::json text = name;
  return cat(R"({"ph":"M","pid":0,"tid":)", tid, R"(,"name":"thread_name","args":{"name":)", text.dump(), "}},\n",
             R"({"ph":"M","pid":0,"tid":)", tid, R"(,"name":"thread_sort_index","args":{"sort_index":)", order, "}}");
}

std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

std::string trace_events(const Activity& activity, int rank, int ranks, double zero) {
  // Collectives by their start, each on the first track beside the main one that is free.
  std::vector<const Event*> sorted;
  for (const Event& e : activity.events()) sorted.push_back(&e);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Event* a, const Event* b) { return a->begin < b->begin; });
  std::vector<int64_t> free_at;
  std::string text;
  for (const Event* e : sorted) {
    const int64_t begin = nanoseconds(e->begin, zero), end = std::max(begin, nanoseconds(e->end, zero));
    size_t lane = 0;
    if (e->kind == Event::Collective && !e->alone) {
      while (lane < free_at.size() && free_at[lane] > begin) ++lane;
      if (lane == free_at.size()) free_at.push_back(0);
      free_at[lane++] = end;
    }
    text +=
        cat(text.empty() ? "" : ",\n", R"({"ph":"X","pid":0,"tid":)", rank + static_cast<int>(lane) * ranks,
            R"(,"ts":)", microseconds(begin), R"(,"dur":)", microseconds(end - begin), R"(,"cat":")", category(e->kind),
            R"(","name":")", e->kind == Event::Wait ? "wait for " : "", e->name, "\"", arguments(*e), "}");
  }
  std::string names = name_thread(rank, cat("rank ", rank), 100 * rank);
  for (size_t lane = 1; lane <= free_at.size(); ++lane)
    names += ",\n" + name_thread(rank + static_cast<int>(lane) * ranks,
                                 cat("rank ", rank, " comm", lane > 1 ? cat(" ", lane) : ""),
                                 100 * rank + static_cast<int>(lane));
  return names + (text.empty() ? "" : ",\n") + text;
}

double clock_offset(Comm& world, Backend& backend, const std::function<double()>& clock, const std::string& machine) {
  const auto machines = world.all_gather_text(machine);
  double offset = 0;
  for (int r = 1; r < world.size(); ++r) {
    if (machines[r] == machines[0] || (world.rank() != 0 && world.rank() != r)) continue;
    Tensor message = backend.empty({1}, DType::F64);
    const auto give = [&](double x, int to) {
      backend.copy_in(message, &x);
      world.send(message, to).wait();
    };
    const auto take = [&](int from) {
      double x = 0;
      world.recv(message, from).wait();
      backend.copy_out(message, &x);
      return x;
    };
    double best = INFINITY, found = 0;
    for (int round = 0; round < 16; ++round) {
      if (world.rank() == 0) {
        const double begin = clock();
        give(begin, r);
        const double there = take(r), end = clock();
        if (end - begin < best) best = end - begin, found = there - (begin + end) / 2;
      } else {
        take(0);
        give(clock(), 0);
      }
    }
    if (world.rank() == 0)
      give(found, r);
    else
      offset = take(0);
  }
  return offset;
}

double clock_offset(Comm& world, Backend& backend, const std::function<double()>& clock) {
  return clock_offset(world, backend, clock, machine_id());
}

TraceFile::TraceFile(std::string path, Comm& world, Backend& backend) : path_(std::move(path)), backend_(&backend) {
  together(world, [&] {
    if (world.rank() != 0) return;
    const bool was = fs::exists(path_);
    errno = 0;
    const bool writable = std::ofstream(path_, std::ios::app).good();
    require(writable, "--trace ", path_, ": cannot be written: ", std::strerror(errno));
    if (!was) fs::remove(path_);
  });
  zero_ = seconds_now();  // rank 0's, taken before any rank can leave the next call
  world.broadcast(std::span(&zero_, 1), 0).wait();
  offset_ = clock_offset(world, backend);
}

std::string TraceFile::write(const Activity& activity, Comm& world) {
  const int rank = world.rank(), ranks = world.size();
  std::string mine = trace_events(activity, rank, ranks, zero_ + offset_);
  std::vector<int64_t> left_out(ranks), lengths(ranks), kept(ranks);
  const Counts one_each(ranks, 1);
  const auto gather = [&](int64_t value, std::vector<int64_t>& all) {
    world.all_gather(std::span<const int64_t>(&value, 1), std::span(all), one_each).wait();
  };
  gather(activity.left_out(), left_out);
  gather(static_cast<int64_t>(activity.events().size()), kept);
  gather(static_cast<int64_t>(mine.size()), lengths);

  std::ofstream out;
  std::string wrong;
  const auto check = [&] {
    if (wrong.empty() && !out) wrong = cat("--trace ", path_, ": cannot be written: ", std::strerror(errno));
  };
  if (rank == 0) {
    errno = 0;
    out.open(path_, std::ios::trunc);
    out << R"({"displayTimeUnit":"ms","otherData":{"ranks":)" << ranks << R"(,"left_out":)"
        << nlohmann::json(left_out).dump() << "},\n\"traceEvents\":[\n"
        << mine;
    check();
  }
  for (int r = 1; r < ranks; ++r) {
    if (rank != 0 && rank != r) continue;
    Tensor text = backend_->empty({lengths[r]}, DType::U8);
    if (rank == r) {
      backend_->copy_in(text, mine.data());
      world.send(text, 0).wait();
    } else {
      std::string theirs(lengths[r], '\0');
      world.recv(text, r).wait();
      backend_->copy_out(text, theirs.data());
      out << ",\n" << theirs;
      check();
    }
  }
  if (rank == 0) {
    out << "\n]}\n";
    out.close();
    check();
  }
  together(world, [&] { require(wrong.empty(), wrong); });

  int64_t events = 0, lost = 0;
  for (int r = 0; r < ranks; ++r) events += kept[r], lost += left_out[r];
  return cat("trace: ", path_, ", ", group_digits(events), " events of ", ranks, ranks == 1 ? " rank" : " ranks",
             lost > 0 ? cat("; full, so the last ", group_digits(lost), " are left out") : "",
             "; open it at ui.perfetto.dev, or ./course trace ", path_);
}

}  // namespace course
