// Parameters: what a rank holds of one, and that its initial values do not depend on it.
#include "chapters/04_sharded_linear/parameter.hpp"

#include <cmath>
#include <set>

#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {
namespace {

using Catch::Matchers::Contains;

// What every rank owns of a parameter, put together: by boxes alone, no mesh assumed.
std::vector<float> joined(Parameter& p) {
  const auto mine = backend().to_host(p.owned());
  std::string text = cat(p.owned_box().offset[0], " ", p.owned_box().offset[1], " ", p.owned_box().size[0], " ",
                         p.owned_box().size[1], "\n");
  text.append(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(float));
  std::vector<float> whole(numel(p.global()), NAN);
  for (const auto& part : world().all_gather_text(text)) {
    const size_t line = part.find('\n');
    std::istringstream numbers(part.substr(0, line));
    Box box{Shape(2), Shape(2)};
    numbers >> box.offset[0] >> box.offset[1] >> box.size[0] >> box.size[1];
    copy_shared(box, part.data() + line + 1, whole_box(p.global()), whole.data(), sizeof(float));
  }
  return whole;
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float v : values) most = std::max(most, std::abs(double(v)));
  return most;
}

}  // namespace

TEST_CASE("B20: the initial weight is the same on every cut, bit by bit") {
  const auto B20 = the_case("B20");
  const auto& given = B20["input"];
  const int64_t out = given["shape"][0], in = given["shape"][1];
  const uint64_t seed = given["seed"];
  const double bound = B20["right"]["bound_global_fan_in"];
  const int P = world().size();
  Linear serial(backend(), in, out);
  initialize(serial, seed);
  const auto want = backend().to_host(serial.weight.value());
  CHECK(largest(want) <= bound);
  CHECK(largest(want) > 0.96 * bound);

  for (int64_t tp = 1; tp <= P; ++tp) {
    if (P % tp) continue;
    const DeviceMesh mesh(world(), backend(), {{"dp", P / tp}, {"tp", tp}});
    for (const bool colwise : {true, false})
      for (const bool owned_in_parts : {false, true}) {
        INFO("dp " << P / tp << " × tp " << tp << (colwise ? " by columns" : " by rows")
                   << (owned_in_parts ? ", owned in parts" : ""));
        Linear linear(backend(), in, out);
        if (colwise)
          ColwiseParallel().apply(linear, mesh["tp"]);
        else
          RowwiseParallel().apply(linear, mesh["tp"]);
        if (owned_in_parts) linear.weight.own_part(mesh["dp"]);
        initialize(linear, seed);

        const auto mine = backend().to_host(linear.weight.owned());
        CHECK(backend().to_host(part_of(serial.weight.value(), linear.weight.owned_box())) == mine);
        CHECK(joined(linear.weight) == want);
        // The bound comes from the global fan-in: a shard's own would be 1/√(64/tp) by rows.
        CHECK(largest(mine) <= bound);
        CHECK(largest(mine) > 0.96 * bound);

        const std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(float));
        const auto all = world().all_gather_text(bytes);
        const int64_t different = owned_in_parts ? P : tp;  // without own_part() the dp ranks hold copies
        CHECK(static_cast<int64_t>(std::set<std::string>(all.begin(), all.end()).size()) == different);
        CHECK(static_cast<int64_t>(mine.size()) == numel(linear.weight.owned_box().size));
      }
  }
  if (P == given["fsdp"]) {
    const DeviceMesh dp(world(), backend(), {{"dp", P}});
    Linear linear(backend(), in, out);
    linear.weight.own_part(dp);
    initialize(linear, seed);
    CHECK(linear.weight.owned().shape() == Shape{B20["right"]["fsdp3_rows"][world().rank()].get<int64_t>(), in});
    CHECK(joined(linear.weight) == want);
  }
}

TEST_CASE("initial values are PyTorch's: U(±1/√in) for weight and bias, N(0,1) for a table") {
  Linear linear(backend(), 100, 300, true);
  initialize(linear, 42);
  for (Parameter* p : parameters_of(linear)) {
    const auto values = backend().to_host(p->value());
    CHECK(largest(values) <= 0.1);
    CHECK(largest(values) > 0.098);
    double sum = 0;
    for (const float v : values) sum += v;
    CHECK(std::abs(sum / values.size()) < 0.1 / std::sqrt(values.size()) * 3);
  }
  CHECK(backend().to_host(linear.weight.value())[0] !=
        backend().to_host(linear.bias->value())[0]);  // streams differ by name

  Embedding table(backend(), 200, 50);
  initialize(table, 42);
  double sum = 0, squares = 0;
  for (const float v : backend().to_host(table.weight.value())) sum += v, squares += double(v) * v;
  CHECK(std::abs(sum / 10000) < 0.03);
  CHECK(std::abs(squares / 10000 - 1) < 0.05);
}

TEST_CASE("which part, and who speaks for it") {
  const int P = world().size();
  for (int64_t tp = 1; tp <= P; ++tp) {
    if (P % tp) continue;
    const DeviceMesh mesh(world(), backend(), {{"dp", P / tp}, {"tp", tp}});
    const int64_t d = mesh.coordinate(0), t = mesh.coordinate(1);
    Parameter cut(backend(), "cut", {7, 5}, {Init::Constant, 2}), copied(backend(), "copied", {7}, {Init::Constant, 2});
    cut.place(mesh["tp"], Shard(-1), Shard(-1));
    copied.place(mesh["tp"], Replicate(), Partial());
    const Chunk columns = chunk(5, tp, t);
    CHECK(cut.box() == Box{{0, columns.offset}, {7, columns.size}});
    CHECK(cut.placement("tp") == Placement(Shard(1)));
    CHECK(is_replicate(cut.placement("dp")));
    CHECK(is_partial(copied.grad_placement("tp")));
    CHECK(cut.speaks_for(mesh) == (d == 0));
    CHECK(copied.speaks_for(mesh) == (d == 0 && t == 0));

    cut.own_part(mesh["dp"]);
    copied.own_part(mesh["dp"]);
    const Chunk rows = chunk(7, P / tp, d);
    CHECK(cut.owned_box() == Box{{rows.offset, columns.offset}, {rows.size, columns.size}});
    CHECK(cut.speaks_for(mesh));
    CHECK(copied.speaks_for(mesh) == (t == 0));

    copied.set_grad_placement("tp", Replicate());
    CHECK(is_replicate(copied.grad_placement("tp")));
    CHECK_THROWS_WITH(copied.set_grad_placement("pp", Partial()), Contains("copied: not placed on pp"));
    CHECK_THROWS_WITH(cut.place(mesh["tp"], Replicate(), Replicate()), Contains("cuts before FSDP"));

    copied.fill(1);
    CHECK(copied.owned().shape() == Shape{rows.size});
    CHECK_THROWS_WITH(copied.value(), Contains("its parts are not gathered"));
    copied.gather(backend().full({7}, 3));
    CHECK(copied.gathered());
    copied.fill(2);  // what was gathered is out of date
    CHECK_FALSE(copied.gathered());
  }
}

TEST_CASE("what a parameter refuses") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  Parameter p(backend(), "p", {4, 6}, {Init::Constant, 0});
  CHECK_THROWS_WITH(p.value(), Contains("p: not filled yet"));
  CHECK_THROWS_WITH(p.place(tp, Partial(), Partial()), Contains("p: a value cannot be placed as P"));
  CHECK_THROWS_WITH(p.place(tp, Shard(2), Shard(2)), Contains("2 dims cannot be placed as S(2)"));
  p.place(tp, Shard(0), Shard(0));
  CHECK_THROWS_WITH(p.place(tp, Shard(1), Shard(1)), Contains("p: placed on tp twice"));
  CHECK_THROWS_WITH(p.fill(std::vector<float>(23)), Contains("p has shape [4,6], 23 values were given"));
  p.fill(1);
  CHECK_THROWS_WITH(p.own_part(tp), Contains("p: a parameter is cut before it is filled"));
}

}  // namespace course::test
