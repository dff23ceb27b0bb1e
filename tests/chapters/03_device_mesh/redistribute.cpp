#include "chapters/03_device_mesh/redistribute.hpp"

#include <cmath>

#include "chapters/03_device_mesh/transitions.hpp"
#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/03_device_mesh/spread.hpp"
#include "tests/support/cases.hpp"

using namespace course;
using namespace course::test;

namespace {

const Placement R = Replicate(), P = Partial(), S0 = Shard(0), S1 = Shard(1), S2 = Shard(2), S2_blocks = Shard(2, 2);

// Uneven, with empty shards on 2 to 4 ranks, with no element at all, and one that divides.
const std::vector<Shape> shapes = {{5, 7, 6}, {3, 1, 2}, {2, 3, 10}, {0, 3, 4}, {4, 4, 8}};

bool has_partial(const Placements& ps) { return std::any_of(ps.begin(), ps.end(), is_partial); }

bool is_transition(const Placements& from, const Placements& to) {
  for (size_t axis = 0; axis < from.size(); ++axis)
    if (is_partial(to[axis]) && !is_partial(from[axis])) return false;
  return true;
}

// What must hold of one transition, forward, and backward by gradient_of.
void check_transition(const DeviceMesh& mesh, const Shape& shape, const Placements& from, const Placements& to) {
  if (!can_cut(mesh, from, shape) || !can_cut(mesh, to, shape)) return;
  INFO(show(shape) << " " << show(from) << " → " << show(to) << " on " << mesh.show());
  const Spread value("value", shape);
  const DTensor x = value.parts(mesh, from), y = x.redistribute(to);
  CHECK(show(y.layout().placements) == show(to));
  CHECK(y.global() == shape);
  CHECK(y.layout().mesh == mesh);
  CHECK(differs(y.local(), value.expected(mesh, from, to), has_partial(from) ? 1e-6 : 0) == "");
  CHECK(differs(x.local(), value.expected(mesh, from, from)) == "");  // the source is as it was

  Placements wanted, arrives;
  for (const auto& p : from) wanted.push_back(gradient_of(p));
  for (const auto& p : to) arrives.push_back(gradient_of(p));
  const Spread gradient("gradient", shape);
  const DTensor dx = gradient.parts(mesh, arrives).redistribute(wanted);
  CHECK(show(dx.layout().placements) == show(wanted));
  CHECK(differs(dx.local(), gradient.expected(mesh, arrives, wanted)) == "");
}

// The formulas of the table, from the sizes alone.
Sent formula(const Shape& shape, const Placement& from, const Placement& to) {
  const double ranks = world().size(), share = (ranks - 1) / ranks, n = 4.0 * numel(shape);
  const Shard *source = as_shard(from), *target = as_shard(to);
  if (ranks == 1 || from == to || is_replicate(from)) return {};
  if (is_partial(from)) return {1, (target ? 1 : 2) * share * n};
  if (!target || source->dim == target->dim) return {1, share * n};
  double mine = 4, kept = 4;
  for (int64_t d = 0; d < 3; ++d) {
    const double of_source =
        d == source->dim ? chunk(shape[d], world().size(), world().rank(), source->block).size : shape[d];
    mine *= of_source;
    kept *= d == target->dim ? chunk(shape[d], world().size(), world().rank(), target->block).size : of_source;
  }
  return {1, mine - kept};
}

bool about(double a, double b) { return std::abs(a - b) <= 1e-9 * b; }

Op op_of(const Placement& from, const Placement& to) {
  const Shard *source = as_shard(from), *target = as_shard(to);
  if (is_partial(from)) return target ? Op::ReduceScatter : Op::AllReduce;
  return target && source && source->dim != target->dim ? Op::AllToAll : Op::AllGather;
}

}  // namespace

TEST_CASE("every transition on a mesh of one axis") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const Placements choices = {R, S0, S1, S2, S2_blocks, P};
  for (const auto& shape : shapes)
    for (const auto& from : choices)
      for (const auto& to : choices)
        if (is_transition({from}, {to})) check_transition(mesh, shape, {from}, {to});
}

TEST_CASE("every transition on every mesh of two axes") {
  const Placements choices = {R, S0, S1, S2, S2_blocks, P};
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(world(), backend(), axes);
    int64_t n = 0;
    for (const auto& from : combinations(choices, 2))
      for (const auto& to : combinations(choices, 2)) {
        if (!is_transition(from, to)) continue;
        check_transition(mesh, {5, 7, 6}, from, to);
        if (++n % 5 == 0) check_transition(mesh, {3, 1, 8}, from, to);
      }
  }
}

TEST_CASE("transitions on meshes of three axes, drawn at random") {
  const auto all = combinations({R, S0, S1, P}, 3);
  const Rng rng(5, "transitions");
  for (const auto& axes : mesh_shapes(3)) {
    const DeviceMesh mesh(world(), backend(), axes);
    for (int64_t n = 0; n < 200; ++n) {
      const auto &from = all[rng.bits(2 * n) % all.size()], &to = all[rng.bits(2 * n + 1) % all.size()];
      if (is_transition(from, to)) check_transition(mesh, {7, 5, 2}, from, to);
    }
  }
}

// A gradient that is still a sum of terms is reduced on its way: f, and the reduce-scatter behind an all-gather.
TEST_CASE("a Partial gradient becomes what the source wants") {
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(world(), backend(), axes);
    for (const auto& from : combinations({R, S0, S2}, 2)) {
      const Spread gradient("gradient", {5, 3, 6});
      for (const auto& arrives : combinations({P}, 2)) {
        INFO(show(arrives) << " → " << show(from) << " on " << mesh.show());
        const DTensor dx = gradient.parts(mesh, arrives).redistribute(from);
        CHECK(differs(dx.local(), gradient.expected(mesh, arrives, from), 1e-6) == "");
      }
    }
  }
}

TEST_CASE("dims count from either end") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const Spread value("value", {5, 3, 6});
  const DTensor x = value.parts(mesh, {Shard(-1)});
  CHECK(x.layout().placements == Placements{S2});
  const DTensor y = x.redistribute({Shard(-3)});
  CHECK(y.layout().placements == Placements{S0});
  CHECK(differs(y.local(), value.expected(mesh, {R}, {S0})) == "");
  const Tensor z = redistribute(backend(), mesh.comm(), x.local(), x.global(), Shard(-1), Shard(-3));
  CHECK(differs(z, y.local()) == "");
}

TEST_CASE("i32 moves and adds, bf16 moves") {
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(world(), backend(), axes);
    for (const DType type : {DType::I32, DType::BF16}) {
      const Placements choices = type == DType::I32 ? Placements{R, S0, S2_blocks, P} : Placements{R, S0, S2_blocks};
      const Spread value("value", {5, 3, 6}, type);
      for (const auto& from : combinations(choices, 2))
        for (const auto& to : combinations(choices, 2)) {
          if (!is_transition(from, to) || !can_cut(mesh, from, {5, 3, 6}) || !can_cut(mesh, to, {5, 3, 6})) continue;
          INFO(name_of(type) << " " << show(from) << " → " << show(to) << " on " << mesh.show());
          const DTensor y = value.parts(mesh, from).redistribute(to);
          const Tensor expected = value.expected(mesh, from, to);
          CHECK(y.local().dtype() == type);
          CHECK(y.local().shape() == expected.shape());
          CHECK(bytes_of(y.local()) == bytes_of(expected));
        }
    }
  }
}

TEST_CASE("each transition sends what its formula says, in one call") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh mesh(recorder, backend(), mesh_shapes(1)[0]);
  const Placements choices = {R, S0, S1, S2, S2_blocks, P};
  for (const auto& shape : shapes)
    for (const auto& from : choices)
      for (const auto& to : choices) {
        if (!is_transition({from}, {to})) continue;
        INFO(show(shape) << " " << show(from) << " → " << show(to));
        const DTensor x = Spread("value", shape).parts(mesh, {from});
        traffic.clear();
        x.redistribute({to});
        const Sent expected = formula(shape, from, to);
        CHECK(traffic.total().calls == expected.calls);
        CHECK(about(traffic.total().bytes, expected.bytes));
        if (expected.calls) CHECK(traffic.count(op_of(from, to), "tp") == 1);
      }
}

// By hand, for [4,8,6] f32: 768 bytes.
TEST_CASE("bytes by pencil") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const auto sent = [&](const DeviceMesh& mesh, const Placements& from, const Placements& to) {
    const DTensor x = Spread("value", {4, 8, 6}).parts(mesh, from);
    traffic.clear();
    x.redistribute(to);
    return traffic.total();
  };
  if (world().size() == 2) {
    const DeviceMesh mesh(recorder, backend(), {{"tp", 2}});
    CHECK(sent(mesh, {S1}, {R}).bytes == 384);
    CHECK(sent(mesh, {P}, {R}).bytes == 768);
    CHECK(sent(mesh, {P}, {S2}).bytes == 384);
    CHECK(sent(mesh, {S0}, {S1}).bytes == 192);
    CHECK(sent(mesh, {R}, {S1}).bytes == 0);
  }
  if (world().size() == 4) {
    const DeviceMesh mesh(recorder, backend(), {{"dp", 2}, {"tp", 2}});
    CHECK(sent(mesh, {S0, S1}, {S0, R}).bytes == 192);       // half of dp's half
    CHECK(sent(mesh, {S0, S1}, {R, S1}).bytes == 192);       //
    CHECK(sent(mesh, {S0, S1}, {R, R}).bytes == 192 + 384);  // dp gathers tp's half, then tp the whole
    CHECK(sent(mesh, {P, R}, {R, R}).bytes == 768);
    CHECK(sent(mesh, {P, S1}, {R, S1}).bytes == 384);
    CHECK(sent(mesh, {P, P}, {S0, S0}).bytes == 384 + 192);
    CHECK(sent(mesh, {P, P}, {S0, S0}).calls == 2);
    CHECK(sent(mesh, {S0, S0}, {R, R}).calls == 2);
    CHECK(sent(mesh, {S0, R}, {S0, S1}).calls == 0);
    CHECK(traffic.count(Op::AllGather, "dp") == 0);
    sent(mesh, {S2, S1}, {S2, S0});
    CHECK(traffic.count(Op::AllToAll, "tp") == 1);
    CHECK(traffic.total().calls == 1);
    // An axis of one cuts nothing, so nothing has to be joined for its sake.
    const DeviceMesh thin(recorder, backend(), {{"dp", 1}, {"tp", 4}});
    CHECK(sent(thin, {S0, S0}, {R, S0}).calls == 0);
  }
}

TEST_CASE("the table's own formula is that of the pencil") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const double ranks = world().size(), share = (ranks - 1) / ranks;
  const Shape shape = {4, 8};
  CHECK(about(cost_of(mesh, shape, {{S0}, {R}}).sent.total().bytes, share * 128));
  CHECK(about(cost_of(mesh, shape, {{P}, {R}}).sent.total().bytes, share * 256));
  CHECK(about(cost_of(mesh, shape, {{P}, {S1}}).sent.total().bytes, share * 128));
  CHECK(cost_of(mesh, shape, {{R}, {S1}}).sent.total().calls == 0);
  CHECK(cost_of(mesh, shape, {{S0}, {S1}}).sent.total().calls == (ranks > 1 ? 1 : 0));
}

TEST_CASE("nothing becomes Partial on purpose, and nothing is sent before that is said") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(recorder, backend(), axes);
    for (const auto& from : combinations({R, S0, S1, P}, 2))
      for (const auto& to : combinations({R, S0, P}, 2)) {
        if (is_transition(from, to)) continue;
        INFO(show(from) << " → " << show(to) << " on " << mesh.show());
        const DTensor x = Spread("value", {4, 3, 2}).parts(mesh, from);
        traffic.clear();
        CHECK_THROWS_AS(x.redistribute(to), SharedError);
        CHECK(traffic.total().calls == 0);
      }
  }
  const DeviceMesh mesh(recorder, backend(), mesh_shapes(1)[0]);
  const Tensor local = random("value", {4, 3});
  CHECK_THROWS_AS(redistribute(backend(), mesh.comm(), local, {4, 3}, R, P), SharedError);
  CHECK_THROWS_WITH(redistribute(backend(), mesh.comm(), local, {4, 3}, R, P),
                    "cannot redistribute R to P: nothing is made Partial on purpose");
}

TEST_CASE("a target that cannot be is refused before anything is sent") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(recorder, backend(), axes);
    INFO(mesh.show());
    const DTensor x = Spread("value", {5, 3}).parts(mesh, {P, P});
    traffic.clear();
    CHECK_THROWS_AS(x.redistribute({R}), SharedError);
    CHECK_THROWS_AS(x.redistribute({R, R, R}), SharedError);
    CHECK_THROWS_AS(x.redistribute({S0, S2}), Error);
    CHECK_THROWS_AS(x.redistribute({S0, Shard(-3)}), Error);
    CHECK_THROWS_AS(x.redistribute({R, Shard(0, 2)}), Error);
    CHECK_THROWS_AS(x.redistribute({R, Shard(0, 0)}), Error);
    // A part of another shape than its placement says.
    const Tensor local = random("value", {5, 4});
    CHECK_THROWS_AS(redistribute(backend(), mesh.comm(1), local, {5, 3}, R, S0), Error);
    CHECK(traffic.total().calls == 0);
  }
}

// B35 (c): 5 and 10 rows over 4 ranks.
TEST_CASE("rows that do not divide are gathered whole") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const auto B35 = the_case("B35");
  for (const char* name : {"rows5_p4", "rows10_p4"}) {
    const int64_t rows = B35["input"][name][0];
    const Spread value("value", {rows, 3});
    const DTensor x = value.parts(mesh, {S0});
    if (world().size() == B35["input"][name][1])
      CHECK(x.local().dim(0) == B35["right"][name][world().rank()].get<int64_t>());
    const Tensor whole = x.full();
    CHECK(whole.shape() == Shape{rows, 3});
    CHECK(differs(whole, value.expected(mesh, {R}, {R})) == "");
  }
}

// B42: a tensor has no strides here. What another library would hand over as a view is packed first.
TEST_CASE("B42: collectives move values, not memory as it lies") {
  const auto B42 = the_case("B42");
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const int64_t ranks = world().size();
  const float sum = static_cast<float>(ranks);
  // (a) x = 0..23 as [4,3,2], dims 1 and 2 swapped: [4,2,3], the same on every rank, summed and cut by dim 0.
  const auto swapped = [](int64_t i) { return static_cast<float>(i / 6 * 6 + i % 3 * 2 + i / 3 % 2); };
  const DTensor x = DTensor::from_local(make({4, 2, 3}, swapped), mesh, {P});
  const Chunk own = chunk(4, ranks, world().rank());
  const DTensor rows = x.redistribute({S0});
  CHECK(differs(rows.local(), make({own.size, 2, 3}, [&](int64_t i) { return sum * swapped(i + own.offset * 6); })) ==
        "");
  if (ranks == 4 && world().rank() == 0) CHECK(backend().to_host(rows.local()) == floats_of(B42["right"]["rank0"]));
  // The same by dim 2, whose pieces do not lie together in memory.
  const Chunk columns = chunk(3, ranks, world().rank());
  CHECK(differs(x.redistribute({S2}).local(), make({4, 2, columns.size}, [&](int64_t i) {
                  return sum * swapped(i / columns.size * 3 + columns.offset + i % columns.size);
                })) == "");
  // (b) Rank r holds [[1,2],[3,4]] + 10r; column 0 of each is gathered.
  const Tensor mine = make({2, 2}, [](int64_t i) { return static_cast<float>(i + 1 + 10 * world().rank()); });
  if (ranks == 2) CHECK(differs(mine, tensor_of(B42["input"]["columns"][world().rank()])) == "");
  const DTensor column = DTensor::from_local(backend().slice(mine, 1, 0, 1), mesh, {S0});
  std::vector<float> expected;
  for (int64_t r = 0; r < ranks; ++r) expected.insert(expected.end(), {10.f * r + 1, 10.f * r + 3});
  CHECK(backend().to_host(column.full()) == expected);
  if (ranks == 2) CHECK(expected == floats_of(B42["right"]["column0"]));
}
