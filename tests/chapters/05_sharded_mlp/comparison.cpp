#include "chapters/05_sharded_mlp/comparison.hpp"

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

const Shape shape = {3, 5, 4};
constexpr double bytes = 4.0 * 3 * 5 * 4;

struct Setting {
  Traffic traffic;
  Recorder seen{world(), traffic};
  DeviceMesh tp{seen, backend(), {{"tp", world().size()}}};
  Linear serial{backend(), 4, 4}, sharded{backend(), 4, 4};
  Comparison compare{tp, traffic, shape};
  Setting() {
    RowwiseParallel().input(Replicate()).apply(sharded, tp);
    initialize(serial, 1), initialize(sharded, 1);
  }
};

// What happens at check(), in words; "" where all is right.
std::string verdict(const Setting& setting) {
  try {
    setting.compare.check();
    return "";
  } catch (const SharedError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a module that equals its serial self and sends what the formula says passes") {
  Setting s;
  const int P = world().size();
  s.compare.run("square", s.serial, s.sharded, Entrance::Whole, all_reduce_cost(bytes, P), gather_cost(bytes, P));
  CHECK(verdict(s) == "");
}

TEST_CASE("another weight, another gradient or another count fails on every rank") {
  const int P = world().size(), last = P - 1;
  for (const std::string fault : {"weight", "calls", "bytes"}) {
    INFO(fault);
    Setting s;
    if (fault == "weight" && world().rank() == 0) {  // the last rank may hold none
      Tensor much = backend().full(s.sharded.weight.value().shape(), 1e-2F);
      backend().add(s.sharded.weight.owned_to_write(), much);
    }
    Cost forward = all_reduce_cost(bytes, P);
    if (fault == "calls" && world().rank() == last) ++forward.calls;
    if (fault == "bytes" && world().rank() == last) forward.bytes += 4;
    s.compare.run("square", s.serial, s.sharded, Entrance::Whole, forward, gather_cost(bytes, P));
    CHECK_THAT(verdict(s),
               Catch::Matchers::Contains(fault == "weight" ? "differs from its serial self" : "square, forward: sent"));
  }
}

TEST_CASE("a row of one's own is compared and counted too") {
  Setting s;
  Tensor sum = random("sum", {3, 2});
  s.tp.comm().all_reduce(sum).wait();
  const Tensor right = backend().clone(sum);
  s.compare.add("sum", sum, right, all_reduce_cost(4.0 * 6, world().size()));
  CHECK(verdict(s) == "");
  s.traffic.clear();
  s.compare.add("none", random("other", {3, 2}), right, {});
  CHECK_THAT(verdict(s), Catch::Matchers::Contains("differs from its serial self"));
}

TEST_CASE("costs add and multiply") {
  const Cost one = all_reduce_cost(300, 3), half = gather_cost(300, 3);
  CHECK(one.calls == 1);
  CHECK(one.bytes == Approx(400));
  CHECK(half.bytes == Approx(200));
  CHECK((one + half * 2).calls == 3);
  CHECK((one + half * 2).bytes == Approx(800));
  CHECK(all_reduce_cost(300, 1).calls == 0);
  CHECK(gather_cost(300, 1).bytes == 0);
}

TEST_CASE("who is idle is named, and what each rank holds is shown") {
  CHECK(idle_ranks(3, 4, "heads") == "idle, for want of heads: rank 3\n");
  CHECK(idle_ranks(2, 4, "heads") == "idle, for want of heads: rank 2, 3\n");
  CHECK(idle_ranks(12, 4, "rows", 4) == "idle, for want of rows: rank 3\n");
  CHECK(idle_ranks(10, 4, "rows") == "");
  Setting s;
  const std::string text = holdings(s.tp, s.sharded);
  CHECK_THAT(text,
             Catch::Matchers::Contains("weight") && Catch::Matchers::Contains(world().size() == 1   ? "[0:4,0:4]"
                                                                              : world().size() == 4 ? "[0:4,0:1]"
                                                                                                    : "[0:4,0:2]"));
  CHECK((text.find("nothing") != std::string::npos) == (world().size() == 3));  // 4 columns: 2, 2, none
}

}  // namespace course::test
