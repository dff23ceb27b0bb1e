#include "chapters/03_device_mesh/dtensor.hpp"

#include "tests/chapters/03_device_mesh/spread.hpp"

using namespace course;
using namespace course::test;

namespace {
const Placement R = Replicate(), P = Partial(), S0 = Shard(0), S1 = Shard(1);
}

TEST_CASE("from_local labels a part and takes nothing from it") {
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(world(), backend(), axes);
    const int64_t dp = mesh.size(0), tp = mesh.size(1);
    INFO(mesh.show());
    const DTensor plain(random(cat("part", world().rank()), {3, 2}));
    CHECK_FALSE(plain.has_layout());
    CHECK(plain.global() == Shape{3, 2});

    // Without the shape of the whole, cuts are taken to be even.
    CHECK(DTensor::from_local(plain, mesh, {S0, Shard(-1)}).global() == Shape{3 * dp, 2 * tp});
    CHECK(DTensor::from_local(plain, mesh, {S0, S0}).global() == Shape{3 * dp * tp, 2});
    CHECK(DTensor::from_local(plain, mesh, {P, R}).global() == Shape{3, 2});
    const DTensor labelled = DTensor::from_local(plain, mesh, {R, Shard(-1)});
    CHECK(labelled.layout().placements == Placements{R, S1});
    CHECK(labelled.layout().mesh == mesh);
    CHECK(&labelled.local() == &plain.local());
    CHECK(show(labelled.layout()) == cat("[3,", 2 * tp, "] as [R,S(1)] on ", mesh.show()));
    CHECK_FALSE(labelled.to_local().has_layout());
    CHECK(&labelled.to_local().local() == &plain.local());

    // With it, they may be uneven.
    const Shape whole = {5, 3};
    const Box box = local_box(mesh, {S1, S0}, whole);
    CHECK(DTensor::from_local(random("part", box.size), mesh, {S1, S0}, whole).global() == whole);
  }
}

TEST_CASE("a part that is not what its layout says is refused") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  const int64_t ranks = world().size();
  const auto part = [] { return random("part", {2, 3}); };
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {S0}, Shape{4 * ranks, 3}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {S0}, Shape{2 * ranks, 4}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {S0}, Shape{2 * ranks}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {Shard(2)}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {Shard(-3)}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {S0, S0}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {}), Error);
  CHECK_THROWS_AS(DTensor::from_local(part(), mesh, {}, Shape{2, 3}), Error);
  CHECK_THROWS_AS(DTensor(part(), Layout{mesh, {R}, {3, 3}}), Error);
  CHECK_THROWS_AS(DTensor(part(), Layout{mesh, {R, R}, {2, 3}}), Error);
  CHECK_THROWS_WITH(DTensor(part(), Layout{mesh, {P}, {3, 3}}),
                    cat("a part of [3,3] as [P] on tp ", ranks, " has shape [3,3] here, not [2,3]"));
  CHECK_THROWS_WITH(DTensor().local(), "a DTensor that holds nothing was read");
  CHECK_THROWS_WITH(DTensor(part()).layout(), "a plain tensor of shape [2,3] has no layout");
  CHECK_THROWS_AS(DTensor(part()).redistribute({R}), Error);
  CHECK_THROWS_AS(DTensor(part()).full(), Error);
  CHECK_THROWS_AS(DTensor().take(backend()), Error);
}

TEST_CASE("full is a copy of its own") {
  for (const auto& axes : mesh_shapes(2)) {
    const DeviceMesh mesh(world(), backend(), axes);
    for (const auto& from : combinations({R, S0, S1, P}, 2)) {
      INFO(show(from) << " on " << mesh.show());
      const Spread value("value", {5, 3});
      const DTensor x = value.parts(mesh, from);
      Tensor whole = x.full();
      CHECK(differs(whole, value.expected(mesh, from, {R, R}), 1e-6) == "");
      backend().fill(whole, 7);
      CHECK(differs(x.local(), value.expected(mesh, from, from)) == "");
    }
  }
}

TEST_CASE("take moves from the only handle and copies from a shared one") {
  DTensor x = random("x", {2, 3});
  const void* memory = x.local().raw();
  {
    DTensor copy = x;
    Tensor taken = std::move(copy).take(backend());
    CHECK(taken.raw() != memory);
    backend().fill(taken, 7);
    CHECK(differs(x.local(), random("x", {2, 3})) == "");
  }
  const Tensor taken = std::move(x).take(backend());
  CHECK(taken.raw() == memory);
  CHECK_FALSE(x.defined());  // NOLINT: what a taken tensor is
}

TEST_CASE("redistributing to where it is shares, and leaves the layout") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]);
  for (const Placement& p : {R, S0, P}) {
    const DTensor x = Spread("value", {5, 3}).parts(mesh, {p});
    const DTensor y = x.redistribute({p});
    CHECK(&y.local() == &x.local());
    CHECK(y.layout() == x.layout());
  }
}

TEST_CASE("add takes one layout only") {
  const DeviceMesh mesh(world(), backend(), mesh_shapes(1)[0]), other(world(), backend(), mesh_shapes(1)[0]);
  const Spread a("a", {4, 4}), b("b", {4, 4});
  for (const Placement& p : {R, S0, P}) {
    const DTensor x = a.parts(mesh, {p}), y = b.parts(mesh, {p});
    const DTensor sum = add(backend(), x, y);
    CHECK(sum.layout() == x.layout());
    Tensor expected = a.expected(mesh, {p}, {p});
    backend().add(expected, y.local());
    CHECK(differs(sum.local(), expected) == "");
    CHECK(differs(x.local(), a.expected(mesh, {p}, {p})) == "");  // x has another handle, so it is as it was
    CHECK(differs(add(backend(), x, x).local(), make(x.local().shape(), [&, v = backend().to_host(x.local())](
                                                                            int64_t i) { return 2 * v[i]; })) == "");
  }
  const auto one = [&](const DeviceMesh& on, const Placement& p) { return a.parts(on, {p}); };
  CHECK_THROWS_AS(add(backend(), one(mesh, R), one(mesh, P)), Error);
  CHECK_THROWS_AS(add(backend(), one(mesh, S0), one(mesh, S1)), Error);
  CHECK_THROWS_AS(add(backend(), one(mesh, S0), one(mesh, Shard(0, 2))), Error);
  CHECK_THROWS_AS(add(backend(), one(mesh, R), one(other, R)), Error);
  CHECK_THROWS_AS(add(backend(), one(mesh, R), one(mesh, R).to_local()), Error);
  CHECK_THROWS_AS(add(backend(), one(mesh, R).to_local(), one(mesh, R)), Error);
  CHECK_THROWS_AS(add(backend(), DTensor(random("x", {2, 3})), DTensor(random("x", {3, 2}))), Error);
  CHECK(differs(add(backend(), DTensor(random("x", {2})), DTensor(random("y", {2}))).local(), make({2}, [](int64_t i) {
                  const auto x = backend().to_host(random("x", {2})), y = backend().to_host(random("y", {2}));
                  return x[i] + y[i];
                })) == "");
}
