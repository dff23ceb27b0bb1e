// f, g, gather and scatter by hand on local tensors: right with them, and how wrong without each.
#include "chapters/04_sharded_linear/conjugate_pair.hpp"

#include "chapters/04_sharded_linear/linear.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {
namespace {

// N rows  I in  O out: none divides
constexpr int64_t N = 6, I = 5, O = 7;

Tensor product(const Tensor& a, const Tensor& b, bool transpose_b) {
  Tensor c = backend().empty({a.dim(0), b.dim(transpose_b ? 0 : 1)});
  backend().matmul(a, false, b, transpose_b, c);
  return c;
}

struct Serial {
  Serial() : linear(backend(), I, O) {
    initialize(linear, 31);
    out = run_serial(linear, x, dy);
  }
  Linear linear;
  Tensor x = random("x", {N, I}), dy = random("dy", {N, O});
  Expected out;
};

}  // namespace

TEST_CASE("by columns: nothing forward, f adds the input's gradients; alone a rank's is wrong") {
  const int P = world().size();
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", P}});
  const Serial serial;
  const Tensor w = part_of(serial.linear.weight.value(), tp, Shard(0));  // [O/P,I]
  const Tensor x = f.forward(backend(), tp.comm(), serial.x, {N, I});
  const Tensor y = product(x, w, true);
  CHECK(differs(y, part_of(serial.out.y, tp, Shard(1)), 1e-5) == "");
  CHECK(traffic.total().calls == 0);
  const Tensor alone = product(part_of(serial.dy, tp, Shard(1)), w, false);
  if (P > 1) CHECK(differs(alone, serial.out.dx, 1e-2) != "");
  CHECK(differs(f.backward(backend(), tp.comm(), alone, {N, I}), serial.out.dx, 1e-5) == "");
  CHECK(traffic.count(Op::AllReduce) == (P > 1));
  CHECK(traffic.total().calls == (P > 1));
}

TEST_CASE(
    "by rows: g adds the terms of y; its gradient is whole already, and adding it again makes it P times too large") {
  const int P = world().size();
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", P}});
  const Serial serial;
  const Tensor w = part_of(serial.linear.weight.value(), tp, Shard(1));  // [O,I/P]
  const Tensor term = product(part_of(serial.x, tp, Shard(1)), w, true);
  if (P > 1) CHECK(differs(term, serial.out.y, 1e-2) != "");
  CHECK(differs(g.forward(backend(), tp.comm(), term, {N, O}), serial.out.y, 1e-5) == "");
  CHECK(traffic.count(Op::AllReduce) == (P > 1));
  traffic.clear();
  const Tensor dy = g.backward(backend(), tp.comm(), serial.dy, {N, O});
  CHECK(differs(product(dy, w, false), part_of(serial.out.dx, tp, Shard(1)), 1e-5) == "");
  CHECK(traffic.total().calls == 0);
  const Tensor again = f.backward(backend(), tp.comm(), serial.dy, {N, O});
  Tensor times_p = backend().clone(serial.dy);
  backend().scale(times_p, static_cast<float>(P));
  CHECK(differs(again, times_p, 1e-6) == "");
}

TEST_CASE("gather and scatter: the same sums on a cut dim") {
  const int P = world().size();
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", P}});
  const Serial serial;
  const Tensor w = part_of(serial.linear.weight.value(), tp, Shard(0));
  // x comes in slices of dim 1, here the features
  const Tensor x = gather.forward(backend(), tp.comm(), part_of(serial.x, tp, Shard(1)), {N, I});
  CHECK(differs(x, serial.x) == "");
  const Tensor alone = product(part_of(serial.dy, tp, Shard(1)), w, false);
  CHECK(differs(gather.backward(backend(), tp.comm(), alone, {N, I}), part_of(serial.out.dx, tp, Shard(1)), 1e-5) ==
        "");
  CHECK(traffic.count(Op::AllGather) == (P > 1));
  CHECK(traffic.count(Op::ReduceScatter) == (P > 1));
  traffic.clear();

  const Tensor term =
      product(part_of(serial.x, tp, Shard(1)), part_of(serial.linear.weight.value(), tp, Shard(1)), true);
  CHECK(differs(scatter.forward(backend(), tp.comm(), term, {N, O}), part_of(serial.out.y, tp, Shard(1)), 1e-5) == "");
  CHECK(differs(scatter.backward(backend(), tp.comm(), part_of(serial.dy, tp, Shard(1)), {N, O}), serial.dy) == "");
  CHECK(traffic.count(Op::ReduceScatter) == (P > 1));
  CHECK(traffic.count(Op::AllGather) == (P > 1));
  CHECK(traffic.total().calls == 2 * (P > 1));
}

}  // namespace course::test
