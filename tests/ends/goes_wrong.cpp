// A program that goes wrong on one rank, in the way that --how names: what test_faults.py and test_signals.py start.
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "chapters/04_sharded_linear/linear.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"
#include "common/support/stop_signal.hpp"

using namespace course;

namespace {

void give_up() { throw std::runtime_error("nothing may leave here"); }

void meet(Comm& world) { world.sum(1); }

// A rank that stays away and answers nothing, not even a Ctrl-C.
void stay_away() {
  for (;;) sleep(1);
}

struct ThrowsAtItsEnd {
  ~ThrowsAtItsEnd() noexcept(false) { throw std::runtime_error("a destructor gave up"); }
};

struct MeetsAtItsEnd {
  Comm& world;
  std::vector<double> x{1};
  ~MeetsAtItsEnd() { (void)world.all_reduce(std::span(x)); }
};

// What FSDP and DDP do: a hook starts a call that backward's end waits for.
void backward(Session& session, bool bad) {
  Linear linear(session.backend(), 4, 3);
  initialize(linear, 1);
  Tensor total = session.backend().from_host(std::vector<float>(1000, 1.0f), {1000});
  Work under_way;
  Hooks hooks;
  hooks.after_backward = [&](DTensor dx) {
    if (bad) throw std::runtime_error("the hook found no gradient");
    under_way = session.world().all_reduce(total);
    return dx;
  };
  linear.wrap(hooks);
  linear.forward(session.backend().from_host(std::vector<float>(8, 1.0f), {2, 4}));
  linear.backward(session.backend().from_host(std::vector<float>(6, 1.0f), {2, 3}));
  under_way.wait();
}

int zero = 0;
int deeper(int depth) {
  volatile char room[4096];
  room[depth % 4096] = static_cast<char>(depth);
  return deeper(depth + 1) + room[depth % 4096];
}

void touch_a_file_that_shrank() {
  std::FILE* file = std::tmpfile();
  require(file && ftruncate(fileno(file), 4096) == 0, "no temporary file");
  const auto* byte = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(file), 0));
  require(ftruncate(fileno(file), 0) == 0, "a temporary file cannot shrink");
  (void)*byte;
}

using Way = std::function<void(Session&)>;

const std::map<std::string, Way> ways = {
    // What a rank may throw, and where.
    {"throw", [](Session&) { throw std::runtime_error("its third all-reduce was one too many"); }},
    {"throw-in-thread",
     [](Session& s) {
       std::thread([] { throw std::runtime_error("the worker found nothing to do"); }).detach();
       for (;;) meet(s.world());
     }},
    {"throw-in-openmp",
     [](Session&) {
#pragma omp parallel num_threads(2)
       throw std::runtime_error("a loop of many threads gave up");
     }},
    {"throw-in-hook", [](Session& s) { backward(s, true); }},
    {"throw-bad-alloc", [](Session&) { throw std::bad_alloc(); }},
    {"ask-for-too-much", [](Session& s) { s.backend().empty({int64_t{1} << 50}, DType::F32); }},
    {"throw-int", [](Session&) { throw 7; }},
    {"throw-in-destructor", [](Session&) { ThrowsAtItsEnd at_its_end; }},
    {"throw-while-unwinding",
     [](Session&) {
       ThrowsAtItsEnd at_its_end;
       throw std::runtime_error("the first of two");
     }},
    {"throw-in-noexcept", [](Session&) { []() noexcept { give_up(); }(); }},
    {"meet-while-unwinding",
     [](Session& s) {
       MeetsAtItsEnd at_its_end{s.world()};
       throw std::runtime_error("thrown beside one who meets at its end");
     }},
    {"throw-shared-alone", [](Session&) { throw SharedError("a fault that all should have seen"); }},
    {"throw-usage-alone", [](Session&) { throw UsageError("a flag that only this rank was given"); }},
    {"terminate", [](Session&) { std::terminate(); }},
    // Signals of its own making.
    {"segv", [](Session&) { *reinterpret_cast<volatile int*>(uintptr_t{16}) = 1; }},
    {"stack", [](Session&) { zero = deeper(0); }},
    {"bus", [](Session&) { touch_a_file_that_shrank(); }},
    {"fpe", [](Session&) { raise(SIGFPE); }},  // not every processor traps a division
    {"ill", [](Session&) { raise(SIGILL); }},
    {"abort", [](Session&) { std::abort(); }},
    {"signal-that-nobody-asks-about",
     [](Session&) {
       StopSignal stop;
       raise(SIGTERM);
     }},
    {"second-ctrl-c",
     [](Session&) {
       StopSignal stop;
       raise(SIGINT);
       raise(SIGINT);
       std::cerr << "it went on after the second" << std::endl;
     }},
    // Ends that leave the others alone.
    {"exit", [](Session&) { std::exit(0); }},
    {"return", [](Session&) {}},
    {"stay-away", [](Session&) { stay_away(); }},
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    Cli cli("goes_wrong", "goes wrong on one rank");
    std::string how;
    std::string where = "all-reduce";
    int64_t who = 2;
    std::vector<std::string> names;
    for (const auto& [name, way] : ways) names.push_back(name);
    cli.add("--how", how, "in which way").one_of(names);
    cli.add("--who", who, "the rank").not_negative();
    cli.add("--where", where, "what the others wait in").one_of({"all-reduce", "hook", "split", "end"});
    cli.parse(session);
    meet(session.world());
    meet(session.world());
    session.out() << "two went well" << std::endl;
    if (session.rank() == who) {
      ways.at(how)(session);
      return;
    }
    if (where == "hook") backward(session, false);
    if (where == "split") session.world().split(0, session.rank(), "half");
    if (where == "end") return;
    for (;;) meet(session.world());
  });
}
