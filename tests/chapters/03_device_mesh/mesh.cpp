#include <set>

#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/03_device_mesh/spread.hpp"
#include "tests/support/cases.hpp"

using namespace course;
using namespace course::test;

namespace {

// The world ranks of a group, in its own order.
std::vector<std::string> members(const DeviceMesh& mesh, int64_t axis) {
  return mesh.comm(axis).all_gather_text(cat(world().rank()));
}

}  // namespace

TEST_CASE("ranks are numbered row by row, and groups differ in one coordinate") {
  for (int64_t axes = 1; axes <= 3; ++axes)
    for (const auto& shape : mesh_shapes(axes)) {
      const DeviceMesh mesh(world(), backend(), shape);
      INFO(mesh.show());
      CHECK(mesh.dims() == axes);
      int64_t rank = 0;
      for (int64_t axis = 0; axis < axes; ++axis) {
        CHECK(mesh.name(axis) == shape[axis].name);
        CHECK(mesh.size(axis) == shape[axis].size);
        CHECK(mesh.index(shape[axis].name) == axis);
        CHECK((mesh.coordinate(axis) >= 0 && mesh.coordinate(axis) < mesh.size(axis)));
        rank = rank * mesh.size(axis) + mesh.coordinate(axis);
      }
      CHECK(rank == world().rank());
      int64_t step = 1;  // between neighbours on an axis
      for (int64_t axis = axes - 1; axis >= 0; step *= mesh.size(axis--)) {
        CHECK(mesh.comm(axis).size() == mesh.size(axis));
        CHECK(mesh.comm(axis).rank() == mesh.coordinate(axis));
        CHECK(mesh.comm(axis).name() == mesh.name(axis));
        std::vector<std::string> expected;
        for (int64_t c = 0; c < mesh.size(axis); ++c)
          expected.push_back(cat(rank + (c - mesh.coordinate(axis)) * step));
        CHECK(members(mesh, axis) == expected);
      }
    }
}

TEST_CASE("the mesh of the header's picture") {
  if (world().size() != 4) return;
  const DeviceMesh mesh(world(), backend(), {{"dp", 2}, {"tp", 2}});
  const int r = world().rank();
  CHECK(mesh.show() == "dp 2 × tp 2");
  CHECK(mesh.coordinate(mesh.index("dp")) == r / 2);
  CHECK(mesh.coordinate(mesh.index("tp")) == r % 2);
  CHECK(members(mesh, 0) == (r % 2 ? std::vector<std::string>{"1", "3"} : std::vector<std::string>{"0", "2"}));
  CHECK(members(mesh, 1) == (r / 2 ? std::vector<std::string>{"2", "3"} : std::vector<std::string>{"0", "1"}));
}

TEST_CASE("a mesh of one axis of another shares its group") {
  for (const auto& shape : mesh_shapes(2)) {
    Traffic traffic;
    Recorder recorder(world(), traffic);
    const DeviceMesh mesh(recorder, backend(), shape);
    for (const std::string axis : {"dp", "tp"}) {
      const DeviceMesh part = mesh[axis];
      INFO(mesh.show() << " [" << axis << "]");
      CHECK(part.dims() == 1);
      CHECK(part.name(0) == axis);
      CHECK(part.size() == mesh.size(mesh.index(axis)));
      CHECK(part.coordinate() == mesh.coordinate(mesh.index(axis)));
      CHECK(&part.comm() == &mesh.comm(mesh.index(axis)));
      CHECK(part.has(axis));
      CHECK_FALSE(part.has(axis == "dp" ? "tp" : "dp"));
      CHECK(part == mesh[axis]);
      CHECK_FALSE(part == mesh);

      // Traffic is known by the axis.
      Tensor x = make({3}, [](int64_t i) { return static_cast<float>(i + world().rank()); });
      traffic.clear();
      part.comm().all_reduce(x).wait();
      CHECK(traffic.count(Op::AllReduce, axis) == (part.size() > 1 ? 1 : 0));
      CHECK(traffic.total().calls == traffic.count(Op::AllReduce, axis));
    }
    const DeviceMesh copy = mesh;
    CHECK(copy == mesh);
    CHECK_FALSE(mesh["dp"] == mesh["tp"]);
    CHECK_FALSE(DeviceMesh(recorder, backend(), shape) == mesh);  // other groups, if of the same ranks
  }
}

TEST_CASE("a mesh that cannot be is refused, on every rank alike") {
  const int64_t ranks = world().size();
  const auto refused = [](const std::vector<MeshAxis>& axes) {
    try {
      DeviceMesh(world(), backend(), axes);
    } catch (const SharedError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refused({{"tp", ranks + 1}}) ==
        cat("a mesh of tp ", ranks + 1, " needs ", ranks + 1, " ranks, there are ", ranks));
  CHECK(refused({{"dp", 2}, {"tp", ranks}}) ==
        cat("a mesh of dp 2 × tp ", ranks, " needs ", 2 * ranks, " ranks, there are ", ranks));
  CHECK(refused({{"tp", ranks}, {"tp", 1}}) == "a mesh has two axes named tp");
  CHECK(refused({{"tp", 0}}) == "mesh axis tp has size 0");
  CHECK(refused({{"dp", -1}, {"tp", -ranks}}) == "mesh axis dp has size -1");
  CHECK(refused({}) == "a mesh has one axis or more");

  const DeviceMesh mesh(world(), backend(), {{"dp", 1}, {"tp", ranks}});
  CHECK_THROWS_AS(mesh["pp"], SharedError);
  CHECK_THROWS_WITH(mesh.index("pp"), cat("the mesh dp 1 × tp ", ranks, " has no axis pp"));
}

TEST_CASE("placements print, compare, and count dims from either end") {
  CHECK(show(Placement(Shard(0))) == "S(0)");
  CHECK(show(Placement(Shard(-1))) == "S(-1)");
  CHECK(show(Placement(Shard(0, 256))) == "S(0,/256)");
  CHECK(show(Placement(Replicate())) == "R");
  CHECK(show(Placement(Partial())) == "P");
  CHECK(show(Placements{Shard(1), Replicate(), Partial()}) == "[S(1),R,P]");
  CHECK(show(Placements{}) == "[]");

  CHECK(Placement(Shard(1)) == Placement(Shard(1)));
  CHECK(Placement(Shard(1)) != Placement(Shard(0)));
  CHECK(Placement(Shard(1)) != Placement(Shard(1, 2)));
  CHECK(Placement(Shard(0)) != Placement(Replicate()));
  CHECK(Placement(Partial()) != Placement(Replicate()));
  CHECK(is_replicate(Replicate()));
  CHECK_FALSE(is_replicate(Partial()));
  CHECK(is_partial(Partial()));
  CHECK_FALSE(is_partial(Shard(0)));
  const Placement shard = Shard(2, 4), replicate = Replicate();
  CHECK(as_shard(shard)->dim == 2);
  CHECK(as_shard(replicate) == nullptr);

  CHECK(from_front(Shard(-1), 3) == Placement(Shard(2)));
  CHECK(from_front(Shard(-3, 5), 3) == Placement(Shard(0, 5)));
  CHECK(from_front(Shard(1), 3) == Placement(Shard(1)));
  CHECK(from_front(Partial(), 0) == Placement(Partial()));
  CHECK_THROWS_WITH(from_front(Shard(3), 3), "a tensor of 3 dims cannot be placed as S(3)");
  CHECK_THROWS_WITH(from_front(Shard(-4), 3), "a tensor of 3 dims cannot be placed as S(-4)");
  CHECK_THROWS_AS(from_front(Shard(0), 0), Error);

  CHECK(gradient_of(Shard(1, 2)) == Placement(Shard(1, 2)));
  CHECK(gradient_of(Replicate()) == Placement(Replicate()));
  CHECK(gradient_of(Partial()) == Placement(Replicate()));
}

// B35: no size is taken as local × ranks.
TEST_CASE("sizes that do not divide") {
  const auto B35 = the_case("B35");
  for (const auto& [name, given] : B35["input"].items()) {
    INFO(name);
    CHECK(chunk_sizes(given[0], given[1]) == B35["right"][name].get<std::vector<int64_t>>());
  }
  CHECK(chunk_sizes(768, 2, 256) == std::vector<int64_t>{512, 256});
  CHECK(chunk_sizes(768, 4, 256) == std::vector<int64_t>{256, 256, 256, 0});
  CHECK(chunk_sizes(6, 2, 2, 10) == std::vector<int64_t>{40, 20});
  CHECK_THROWS_AS(chunk(7, 2, 0, 2), Error);
  CHECK_THROWS_AS(chunk(7, 2, 2), Error);
}

TEST_CASE("parts cover the whole, each element once") {
  const Shape shape = {7, 4, 6};
  const Placements choices = {Replicate(), Shard(0), Shard(1), Shard(-1), Shard(2, 2)};
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5}, {2, 3}, {3, 2}, {1, 4}, {2, 2, 2}})
    for (const auto& placements : combinations(choices, static_cast<int64_t>(sizes.size()))) {
      std::vector<int> held(numel(shape), 0);
      int64_t copies = 1;
      for (size_t axis = 0; axis < sizes.size(); ++axis)
        if (is_replicate(placements[axis])) copies *= sizes[axis];
      bool cuttable = true;
      std::vector<int64_t> at(sizes.size(), 0);
      for (bool more = true; more && cuttable;) {
        try {
          const Box box = local_box(sizes, at, placements, shape);
          for (int64_t i = 0; i < numel(box.size); ++i) {
            const int64_t z = i % box.size[2], y = i / box.size[2] % box.size[1], x = i / box.size[2] / box.size[1];
            ++held[((box.offset[0] + x) * shape[1] + box.offset[1] + y) * shape[2] + box.offset[2] + z];
          }
        } catch (const Error&) {  // a block that does not divide what an axis before it left
          cuttable = false;
        }
        more = false;
        for (size_t axis = sizes.size(); axis-- > 0; at[axis] = 0)
          if (++at[axis] < sizes[axis]) {
            more = true;
            break;
          }
      }
      INFO(show(placements));
      if (cuttable) CHECK(std::set<int>(held.begin(), held.end()) == std::set<int>{static_cast<int>(copies)});
    }
}
