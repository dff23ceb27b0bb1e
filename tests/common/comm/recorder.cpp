#include "common/comm/recorder.hpp"

#include "common/chunk.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

constexpr double kHair = 1e-9;  // (P-1)/P is not exact for P = 3

void check_sent(const Sent& sent, int64_t calls, double bytes) {
  CHECK(sent.calls == calls);
  CHECK(sent.bytes == Approx(bytes).epsilon(kHair));
  CHECK((sent.seconds > 0) == (calls > 0));
}

}  // namespace

TEST_CASE("what a ring sends") {
  CHECK(ring_bytes(Op::AllReduce, 1000, 4) == 1500);
  CHECK(ring_bytes(Op::AllGather, 1000, 4) == 750);
  CHECK(ring_bytes(Op::ReduceScatter, 1000, 4) == 750);
  CHECK(ring_bytes(Op::Broadcast, 1000, 4) == 750);
  CHECK(ring_bytes(Op::Send, 1000, 4) == 1000);
  for (const Op op : {Op::AllReduce, Op::AllGather, Op::ReduceScatter, Op::Broadcast})
    CHECK(ring_bytes(op, 1000, 1) == 0);
  CHECK(ring_bytes(Op::AllReduce, 1e12, 2) == 1e12);  // more than 32 bits hold
}

TEST_CASE("calls and bytes by collective") {
  const int P = world().size(), r = world().rank();
  const bool several = P > 1;
  const double share = (P - 1.0) / P;
  Traffic traffic;
  Recorder recorder(world(), traffic);
  CHECK(recorder.rank() == r);
  CHECK(recorder.size() == P);
  CHECK(recorder.name() == world().name());

  Tensor x = random(cat("x", r), {35, 2});
  recorder.all_reduce(x).wait();
  recorder.all_reduce(x, Reduce::Max).wait();
  check_sent(traffic.of(Op::AllReduce), 2 * several, 2 * 2 * share * 280);
  recorder.broadcast(x, P - 1).wait();
  check_sent(traffic.of(Op::Broadcast), several, share * 280);

  const Counts counts = chunk_sizes(11, P);
  Tensor shard = random(cat("shard", r), {counts[r]}), whole = random("whole", {11});
  recorder.all_gather(shard, whole, counts).wait();
  check_sent(traffic.of(Op::AllGather), several, share * 44);
  for (int i = 0; i < 3; ++i) recorder.reduce_scatter(whole, shard, counts).wait();
  check_sent(traffic.of(Op::ReduceScatter), 3 * several, 3 * share * 44);

  Counts out(P), in(P);
  int64_t sent = 0, n_out = 0, n_in = 0;
  for (int s = 0; s < P; ++s) {
    out[s] = 2 * s + r, in[s] = 2 * r + s;
    n_out += out[s], n_in += in[s];
    if (s != r) sent += out[s];
  }
  const Tensor from = random("from", {n_out});
  Tensor to = random("to", {n_in});
  recorder.all_to_all(from, out, to, in).wait();
  check_sent(traffic.of(Op::AllToAll), several, sent * 4.0);

  if (several) {
    const Tensor mine = backend().empty({9}, DType::BF16);
    Tensor theirs = backend().empty({9}, DType::BF16);
    Work arriving = recorder.recv(theirs, (r + P - 1) % P);
    recorder.send(mine, (r + 1) % P).wait();
    arriving.wait();
  }
  check_sent(traffic.of(Op::Send), several, 18 * several);
  check_sent(traffic.of(Op::Recv), several, 0);
  CHECK(traffic.total().calls == several * (2 + 1 + 1 + 3 + 1 + 1 + 1));
  CHECK(traffic.total().bytes == Approx(share * (4 * 280 + 280 + 4 * 44) + sent * 4 + 18 * several).epsilon(kHair));

  traffic.clear();
  CHECK(traffic.total().calls == 0);
  CHECK(traffic.all().empty());
}

TEST_CASE("the groups of a recorder count under their own name") {
  const int P = world().size(), r = world().rank();
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const auto pairs = recorder.split(r / 2, r, "pair");
  const bool paired = pairs->size() == 2;  // of 3 ranks, the last is alone and sends nothing
  Tensor x = random(cat("x", r), {50});
  pairs->all_reduce(x).wait();
  pairs->all_reduce(x).wait();
  recorder.all_reduce(x).wait();
  check_sent(traffic.of(Op::AllReduce, "pair"), 2 * paired, paired ? 400 : 0);
  check_sent(traffic.of(Op::AllReduce, "world"), P > 1, 2 * (P - 1.0) / P * 200);
  CHECK(traffic.count(Op::AllReduce) == 2 * paired + (P > 1));
  CHECK(traffic.count(Op::AllReduce, "row") == 0);
  CHECK(traffic.total("pair").calls == 2 * paired);
}

TEST_CASE("values of the host are counted apart") {
  const int P = world().size();
  const bool several = P > 1;
  Traffic traffic;
  Recorder recorder(world(), traffic);
  recorder.sum(world().rank());
  recorder.max(world().rank());
  recorder.broadcast_text(cat("from ", world().rank()), P - 1);
  recorder.barrier().wait();
  CHECK(traffic.total().calls == 0);
  CHECK(traffic.total().bytes == 0);
  check_sent(traffic.of(Op::AllReduce, "host"), 2 * several, 2 * 2 * (P - 1.0) / P * 8);
  CHECK(traffic.count(Op::Broadcast, "host") == 2 * several);  // the length and the letters
  CHECK(traffic.count(Op::Barrier, "host") == several);

  std::vector<float> weights(10, 1.0F + world().rank());  // f32 is a tensor's type, wherever it lies
  recorder.all_reduce(std::span(weights)).wait();
  check_sent(traffic.of(Op::AllReduce, "world"), several, 2 * (P - 1.0) / P * 40);
}

TEST_CASE("a call counts once, when it starts; its time is added when it ends") {
  if (world().size() == 1) return;
  Traffic traffic;
  Recorder recorder(world(), traffic);
  Tensor x = random(cat("x", world().rank()), {10});
  Work work = recorder.all_reduce(x);
  CHECK(traffic.count(Op::AllReduce) == 1);
  CHECK(traffic.of(Op::AllReduce).seconds == 0);
  work.wait();
  const double seconds = traffic.of(Op::AllReduce).seconds;
  CHECK(seconds > 0);
  work.wait();
  CHECK(work.test());
  CHECK(traffic.of(Op::AllReduce).seconds == seconds);
  CHECK(traffic.count(Op::AllReduce) == 1);
}

}  // namespace course::test
