// Programs whose ranks do not mean the same, one a --mode: test_wrong_collectives.py runs each and reads what is said.
// All begin with one right call. Rank 1 is the wrong one, unless the mode says another.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "common/support/cli.hpp"
#include "common/support/session.hpp"

using namespace course;

namespace {

struct Ranks {
  explicit Ranks(Session& session) : session(session), world(session.world()), P(world.size()), r(world.rank()) {}
  Session& session;
  Comm& world;
  const int P, r;
  const bool wrong = r == 1;
  std::vector<float> twelve = std::vector<float>(12, 1.f);

  void sum(Comm& comm, Site at = Site::current()) { comm.all_reduce(std::span(twelve), Reduce::Sum, at).wait(); }
  void broadcast(int root, Site at = Site::current()) { world.broadcast(std::span(twelve), root, at).wait(); }
  void gather(const Counts& counts, Site at = Site::current()) {
    int64_t all = 0;
    for (const int64_t n : counts) all += n;
    const std::vector<float> mine(counts[r], 1.f);
    std::vector<float> whole(all);
    world.all_gather(std::span(mine), std::span(whole), counts, at).wait();
  }
};

// 2×2: tp joins ranks 0 1 and 2 3, dp ranks 0 2 and 1 3.
struct Mesh {
  explicit Mesh(Ranks& ranks)
      : dp(ranks.world.split(ranks.r % 2, ranks.r, "dp")), tp(ranks.world.split(ranks.r / 2, ranks.r, "tp")) {}
  std::unique_ptr<Comm> dp, tp;
};

void sleep_seconds(double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); }

using Mode = void (*)(Ranks&);
const std::map<std::string, Mode> modes = {
    {"operation",
     [](Ranks& x) {
       if (x.wrong)
         x.gather(Counts(x.P, 12));
       else
         x.sum(x.world);
     }},
    {"size",  // case B41: rank 0 brings [3,4], the others [1]
     [](Ranks& x) {
       if (x.r != 0) x.twelve.resize(1);
       x.sum(x.world);
       x.world.barrier().wait();
     }},
    {"type",  // B41: the same bytes
     [](Ranks& x) {
       std::vector<double> six(6, 1.);
       if (x.wrong)
         x.world.all_reduce(std::span(six)).wait();
       else
         x.sum(x.world);
     }},
    {"reduction",
     [](Ranks& x) { x.world.all_reduce(std::span(x.twelve), x.wrong ? Reduce::Max : Reduce::Sum).wait(); }},
    {"root", [](Ranks& x) { x.broadcast(x.wrong ? 1 : 0); }},
    {"axis",  // rank 3 adds over dp where the others add over tp
     [](Ranks& x) {
       Mesh mesh(x);
       x.sum(x.r == 3 ? *mesh.dp : *mesh.tp);
       x.world.barrier().wait();
     }},
    {"axis-name", [](Ranks& x) { x.sum(*x.world.split(0, x.r, x.wrong ? "dp" : "tp")); }},
    {"order",
     [](Ranks& x) {
       if (x.wrong) x.broadcast(0);
       x.sum(x.world);
       if (!x.wrong) x.broadcast(0);
     }},
    {"order-of-axes",  // each rank waits for one that waits for another
     [](Ranks& x) {
       Mesh mesh(x);
       const bool dp_first = x.r == 0 || x.r == 3;
       x.sum(dp_first ? *mesh.dp : *mesh.tp);
       x.sum(dp_first ? *mesh.tp : *mesh.dp);
     }},
    {"order-alike",  // two sums of one size: only the lines differ
     [](Ranks& x) {
       if (x.wrong) x.sum(x.world);
       x.sum(x.world);
       if (!x.wrong) x.sum(x.world);
     }},
    {"missing",  // B41: one all-reduce of four is left out
     [](Ranks& x) {
       for (int i = 0; i < 4; ++i)
         if (!x.wrong || i != 1) x.sum(x.world);
     }},
    {"missing-on-axis",
     [](Ranks& x) {
       Mesh mesh(x);
       for (int i = 0; i < 3; ++i)
         if (!x.wrong || i != 1) x.sum(*mesh.tp);
     }},
    {"save-on-rank-0",  // B41: the save is a call of all ranks
     [](Ranks& x) {
       if (x.r == 0) together(x.world, [] {});
       x.sum(x.world);
     }},
    {"return",
     [](Ranks& x) {
       if (x.wrong) return;
       x.sum(*x.world.split(0, x.r, "tp"));
     }},
    {"exit",
     [](Ranks& x) {
       if (x.wrong) std::exit(0);
       x.sum(x.world);
     }},
    {"exception",
     [](Ranks& x) {
       if (x.wrong) throw std::runtime_error("data/1.bin is missing");
       x.sum(x.world);
     }},
    {"signal",
     [](Ranks& x) {
       if (x.wrong) std::raise(SIGSEGV);
       x.sum(x.world);
     }},
    {"loop",
     [](Ranks& x) {
       for (volatile bool forever = x.wrong; forever;) {
       }
       x.sum(x.world);
     }},
    {"loop-at-end",
     [](Ranks& x) {
       for (volatile bool forever = x.wrong; forever;) {
       }
     }},
    {"uneven",  // one total, cut in two ways
     [](Ranks& x) {
       Counts counts(x.P, 2);
       counts[0] = x.wrong ? 2 : 3;
       counts[1] = x.wrong ? 3 : 2;
       x.gather(counts);
     }},
    {"all-to-all",  // rank 0 sends rank 1 three elements, rank 1 expects two
     [](Ranks& x) {
       Counts sends(x.P, 2), receives(x.P, 2);
       if (x.r == 0) sends[1] = 3;
       const auto total = [](const Counts& counts) {
         int64_t sum = 0;
         for (const int64_t n : counts) sum += n;
         return sum;
       };
       Backend& backend = x.session.backend();
       const Tensor from = backend.zeros({total(sends)});
       Tensor to = backend.zeros({total(receives)});
       x.world.all_to_all(from, sends, to, receives).wait();
     }},
    {"message",
     [](Ranks& x) {
       Tensor y = x.session.backend().zeros({x.r == 0 ? 3 : 4});
       if (x.r == 0) x.world.send(y, 1).wait();
       if (x.r == 1) x.world.recv(y, 0).wait();
     }},
    {"message-missing",
     [](Ranks& x) {
       Tensor y = x.session.backend().zeros({3});
       if (x.r == 1) x.world.recv(y, 0).wait();
     }},
    {"split",
     [](Ranks& x) {
       if (x.wrong)
         x.sum(x.world);
       else
         x.world.split(0, x.r, "tp");
     }},
    {"slow",  // right: rank 1 comes late, each time
     [](Ranks& x) {
       auto tp = x.world.split(0, x.r, "tp");
       if (x.wrong) sleep_seconds(2.5);
       x.sum(*tp);
       Work late = tp->all_reduce(std::span(x.twelve));
       if (x.wrong) sleep_seconds(2.5);
       late.wait();
       require(x.twelve[0] == static_cast<float>(x.P) * x.P * x.P, "the sum is ", x.twelve[0]);
       if (x.wrong) sleep_seconds(2.5);
     }},
};

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    Cli cli("wrong_calls", "programs whose ranks do not mean the same");
    std::string mode;
    std::vector<std::string> names;
    for (const auto& [name, run] : modes) names.push_back(name);
    cli.add("--mode", mode, "what goes wrong").one_of(names);
    cli.parse(session);
    Ranks ranks(session);
    ranks.sum(session.world());
    modes.at(mode)(ranks);
  });
}
