// 02 collectives: what each does, two all-reduces by hand, and what one costs.
#include <cmath>
#include <iomanip>

#include "chapters/02_collectives/cost_model.hpp"
#include "chapters/02_collectives/examples.hpp"
#include "chapters/02_collectives/recursive_doubling.hpp"
#include "chapters/02_collectives/ring.hpp"
#include "common/support/cli.hpp"

namespace course {
namespace {

// In microseconds: "4.57", "38.2", "1,470".
std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  if (us >= 99.95) return group_digits(std::llround(us));
  return cat(std::fixed, std::setprecision(us < 9.995 ? 2 : 1), us);
}

std::string nanoseconds(double seconds) { return cat(std::setprecision(3), seconds * 1e9); }

// Two all-reduces made of sends and receives: equal to MPI's, bit by bit, and what they really send.
void by_hand(Session& session, Recorder& comm, Traffic& traffic, SentTable& sent, int64_t count) {
  Backend& backend = session.backend();
  const int P = comm.size(), r = comm.rank();
  const Tensor before = own_numbers(backend, comm, count);
  Tensor by_mpi = backend.clone(before);
  comm.all_reduce(by_mpi).wait();

  const auto run = [&](const std::string& name, int64_t sends, double bytes,
                       const std::function<void(Tensor&)>& all_reduce) {
    Tensor x = backend.clone(before);
    traffic.clear();
    all_reduce(x);
    const Sent measured = traffic.of(Op::Send);
    sent.add(name, measured, sends, bytes);
    if (count <= 12) draw_before_after(session, name, before, x, false);
    together(comm, [&] { require(backend.to_host(x) == backend.to_host(by_mpi), name, ": another sum than MPI's"); });
    const auto bytes_of_all = comm.all_gather_text(show_bytes(measured.bytes));
    session.out() << "  equal to MPI's; bytes sent by rank:";
    for (const auto& text : bytes_of_all) session.out() << " " << text;
    session.out() << "; mean " << show_bytes(comm.sum(measured.bytes) / P) << "\n\n";
  };
  run("ring by hand", 2 * (P - 1), ring_all_reduce_bytes(count, P, r),
      [&](Tensor& x) { ring_all_reduce(backend, comm, x); });
  const int sends = recursive_doubling_sends(P, r);
  run("recursive doubling by hand", sends, 4.0 * sends * count,
      [&](Tensor& x) { recursive_doubling_all_reduce(backend, comm, x); });
  session.out() << "  a ring's mean, 2(P-1)/P of " << show_bytes(4.0 * count)
                << " bytes: " << show_bytes(ring_bytes(Op::AllReduce, 4.0 * count, P)) << "\n\n";
}

// Measures one exchange between neighbours and one addition at each size, fits the machine to them, and lays its
// predictions beside the times of three all-reduces.
void sweep(Session& session, int64_t largest) {
  Backend& backend = session.backend();
  Comm& world = session.world();
  const int P = world.size(), right = (world.rank() + 1) % P, left = (world.rank() + P - 1) % P;
  const auto seconds_of = [&](const std::function<void()>& work) {
    return time_of(world, [&] {
      work();
      backend.wait();
    });
  };
  std::vector<int64_t> sizes;
  for (int64_t bytes = 256; bytes <= largest; bytes *= 4) sizes.push_back(bytes);

  std::vector<Sample> exchanges, additions;
  for (const int64_t bytes : sizes) {
    Tensor mine = backend.zeros({bytes / 4}), theirs = backend.zeros({bytes / 4});
    const double n = static_cast<double>(bytes);
    const auto pass_on = [&] {  // what arrived goes out next, so the data is never one that the neighbour still has
      exchange(world, mine, right, theirs, left);
      std::swap(mine, theirs);
    };
    exchanges.push_back({1, n, seconds_of(pass_on)});
    additions.push_back({1, n, seconds_of([&] { backend.add(theirs, mine); })});
  }
  const AlphaBeta sending = fit(exchanges);
  const Machine machine{sending.alpha, sending.beta, fit(additions).beta};
  session.out() << "fitted here: a message takes α = " << microseconds(machine.alpha)
                << " µs, a byte sent β = " << nanoseconds(machine.beta)
                << " ns, a byte added γ = " << nanoseconds(machine.gamma) << " ns\n\n";

  Table table({"bytes", "|", "ring, µs: predicted", "measured", "|", "doubling, µs: predicted", "measured", "|",
               "MPI's, µs: predicted", "measured"});
  for (const int64_t bytes : sizes) {
    Tensor x = backend.zeros({bytes / 4});
    const double n = static_cast<double>(bytes);
    const double ring = seconds_of([&] { ring_all_reduce(backend, world, x); });
    const double doubling = seconds_of([&] { recursive_doubling_all_reduce(backend, world, x); });
    const double mpi = seconds_of([&] { world.all_reduce(x).wait(); });
    table.row(group_digits(bytes), microseconds(ring_seconds(machine, n, P)), microseconds(ring),
              microseconds(recursive_doubling_seconds(machine, n, P)), microseconds(doubling),
              microseconds(mpich_seconds(machine, n, P)), microseconds(mpi));
  }
  session.out() << table.str() << "\n";
}

void collectives(Session& session) {
  int64_t count = 5, largest = int64_t{1} << 22;
  Cli cli("02_collectives", "what each collective does, an all-reduce by hand, and what it costs");
  cli.add("--count", count, "numbers that each rank brings to the all-reduces by hand").positive();
  cli.add("--largest", largest, "bytes of the largest message that is timed, from 1024; 0: nothing is timed")
      .not_negative();
  cli.parse(session);
  require_usage(count <= 100'000, "--count ", count, ": 100000 at most, so that f32 holds every sum exactly");
  require_usage(largest == 0 || (largest >= 1024 && largest <= int64_t{1} << 28), "--largest ", largest,
                ": 0, or from 1024 to 268435456");

  Traffic traffic;
  Recorder comm(session.world(), traffic);
  SentTable sent;
  session.out() << "1. Each collective, before -> after\n\n";
  show_collectives(session, comm, traffic, sent);
  session.out() << "2. An all-reduce by hand\n\n";
  by_hand(session, comm, traffic, sent, count);
  session.out() << sent.str() << "\n";
  sent.check(comm);

  if (comm.size() > 1 && largest > 0) {
    session.out() << "3. What an all-reduce costs on this machine\n\n";
    sweep(session, largest);
  }
  session.out() << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::collectives); }
