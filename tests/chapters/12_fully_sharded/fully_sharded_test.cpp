// Samples, DDP and FSDP against one rank that does it all.
#include "chapters/12_fully_sharded/fully_shard.hpp"

#include <set>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/09_llama/adamw.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

namespace {

using List = std::vector<int64_t>;

// I in, O out; rows of the batch are dealt to the ranks. O = 3 is smaller than a group of 4.
constexpr int64_t I = 5, O = 3;

struct Run {
  explicit Run(Comm& group, bool reshard_after_forward = true, bool fsdp = true)
      : mesh(group, backend(), {{"dp", group.size()}}), linear(backend(), I, O, true) {
    if (fsdp && group.size() > 1) unit = fully_shard(linear, mesh, reshard_after_forward);
    initialize(linear, 3);
    optimizer = std::make_unique<AdamW>(parameters_of(linear));
  }
  void forward_backward(int64_t n) {
    const int64_t P = mesh.size(), rows = 12;
    const Tensor x = random(cat("x", n), {rows, I}), dy = random(cat("dy", n), {rows, O});
    Tensor mine = backend().empty({rows / P, I}), dmine = backend().empty({rows / P, O});
    for (int64_t i = 0; i < rows / P; ++i) {
      backend().copy_slice(x, i * P + mesh.coordinate(), mine, i, 0, 1);
      backend().copy_slice(dy, i * P + mesh.coordinate(), dmine, i, 0, 1);
    }
    linear.forward(std::move(mine));
    linear.backward(std::move(dmine));
  }
  DeviceMesh mesh;
  Linear linear;
  std::shared_ptr<FsdpUnit> unit;
  std::unique_ptr<AdamW> optimizer;
};

void check_equal(Run& sharded, Run& serial) {
  for (size_t i = 0; i < 2; ++i) {
    Parameter &a = *sharded.optimizer->parameters()[i], &b = *serial.optimizer->parameters()[i];
    INFO(a.name());
    CHECK(differs(a.owned(), part_of(b.owned(), a.owned_box()), 1e-5) == "");
    CHECK(differs(sharded.optimizer->mean(i), part_of(serial.optimizer->mean(i), a.owned_box()), 1e-5) == "");
  }
}

}  // namespace

TEST_CASE("B28, B29: which rank reads which sample") {
  const auto orders = [](int64_t n, int64_t ranks, bool shuffle, bool drop, int64_t epoch) {
    std::vector<List> all;
    for (int64_t r = 0; r < ranks; ++r) all.push_back(DistributedSampler{n, ranks, r, shuffle, 42, drop}.order(epoch));
    return all;
  };
  const auto B28 = the_case("B28");
  const auto by_rank = B28["right"]["rank"].get<std::vector<List>>();  // of 3 × 2: a dp rank is every other line
  CHECK(orders(B28["input"]["samples"], B28["input"]["dp"], false, false, 0) ==
        std::vector<List>{by_rank[0], by_rank[2], by_rank[4]});
  CHECK(orders(10, 4, false, false, 0) == std::vector<List>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
  CHECK(orders(10, 4, false, true, 0) == std::vector<List>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(orders(2, 5, false, false, 0) == std::vector<List>{{0}, {1}, {0}, {1}, {0}});
  const auto first = orders(12, 3, true, false, 0);
  std::multiset<int64_t> read;
  for (const auto& list : first) read.insert(list.begin(), list.end());
  CHECK(std::set<int64_t>(read.begin(), read.end()).size() == 12);
  CHECK(first == orders(12, 3, true, false, 0));
  CHECK(first != orders(12, 3, true, false, 1));
  CHECK(first != orders(12, 3, false, false, 0));
}

TEST_CASE("B29: sums over dp count every sample once, whoever reads it") {
  const DeviceMesh dp(world(), backend(), {{"dp", world().size()}});
  const DataShare share = share_over(dp);
  List ten(10);
  for (int64_t i = 0; i < 10; ++i) ten[i] = i;
  double sum = 0, squares = 0, count = 0;
  for (const int64_t i : share.mine(ten)) sum += double(i), squares += double(i * i), ++count;
  count = share.sum(count);
  CHECK(count == 10);
  CHECK(share.sum(sum) / count == 4.5);
  CHECK(share.sum(squares) / count == 28.5);
}

TEST_CASE("B20: FSDP's initial weights are one rank's, bit by bit, and no two parts are equal") {
  const auto B20 = the_case("B20");
  const int64_t out = B20["input"]["shape"][0], in = B20["input"]["shape"][1];
  const uint64_t seed = B20["input"]["seed"];
  const DeviceMesh dp(world(), backend(), {{"dp", world().size()}});
  Linear serial(backend(), in, out), sharded(backend(), in, out);
  const auto unit = fully_shard(sharded, dp);
  initialize(serial, seed), initialize(sharded, seed);
  const Tensor& mine = sharded.weight.owned();
  if (world().size() == B20["input"]["fsdp"])
    CHECK(mine.dim(0) == B20["right"]["fsdp3_rows"][world().rank()].get<int64_t>());
  CHECK(differs(mine, part_of(serial.weight.value(), sharded.weight.owned_box())) == "");
  unit->hold(true);
  CHECK(differs(sharded.weight.value(), serial.weight.value()) == "");
  unit->hold(false);
  const auto values = backend().to_host(mine);
  std::set<std::string> all;
  for (const auto& part : world().all_gather_text({reinterpret_cast<const char*>(values.data()), 16 * sizeof(float)}))
    all.insert(part);
  CHECK(static_cast<int>(all.size()) == world().size());
}

TEST_CASE("B18: FSDP equals one rank, empty pieces included, whenever it lets go of the values") {
  const auto alone = world().split(world().rank(), 0, "alone");
  for (const bool reshard : {true, false}) {
    Run sharded(world(), reshard), serial(*alone);
    for (int64_t n = 1; n <= 3; ++n) {
      for (Run* run : {&sharded, &serial}) {
        run->forward_backward(n);
        run->forward_backward(n + 10);  // accumulates
      }
      CHECK(gradient_norm(sharded.optimizer->parameters(), sharded.mesh, world()) ==
            Approx(gradient_norm(serial.optimizer->parameters(), serial.mesh, *alone)).epsilon(1e-5));
      for (Run* run : {&sharded, &serial}) {
        run->optimizer->step(0.01);
        clear_gradients(run->linear);
      }
      check_equal(sharded, serial);
    }
    if (sharded.unit) {
      CHECK_THROWS_WITH(sharded.linear.weight.value(), Catch::Contains("not gathered"));
      sharded.unit->hold(true);
      CHECK(differs(sharded.linear.weight.value(), serial.linear.weight.value(), 1e-5) == "");
      sharded.unit->hold(false);
      CHECK_FALSE(sharded.linear.weight.gathered());
    }
  }
}

TEST_CASE("FSDP's bytes: three times (P-1)/P of a unit that lets go, twice of one that does not") {
  const int64_t P = world().size();
  for (const bool reshard : {true, false}) {
    Traffic traffic;
    Recorder recorded(world(), traffic);
    Run run(recorded, reshard);
    run.forward_backward(1);
    const double unit = 4.0 * (I * O + O), share = double(P - 1) / double(P);
    CHECK(traffic.total("dp").bytes == Approx((reshard ? 3 : 2) * share * unit));
    CHECK(traffic.count(Op::ReduceScatter) == (P > 1 ? 1 : 0));
  }
}

TEST_CASE("DDP equals one rank, in one bucket or in several") {
  const int64_t P = world().size();
  const auto alone = world().split(world().rank(), 0, "alone");
  for (const int64_t bucket : {int64_t{1}, int64_t{1} << 20}) {
    Traffic traffic;
    Recorder recorded(world(), traffic);
    Run sharded(recorded, true, false), serial(*alone);
    Ddp ddp(sharded.optimizer->parameters(), sharded.mesh, bucket);
    CHECK(ddp.buckets() == (bucket == 1 ? 2 : 1));
    sharded.forward_backward(1);
    serial.forward_backward(1);
    ddp.reduce_gradients();
    CHECK(traffic.count(Op::AllReduce) == (P > 1 ? ddp.buckets() : 0));
    CHECK(traffic.total().bytes == Approx(2.0 * double(P - 1) / double(P) * 4 * (I * O + O)));
    sharded.optimizer->step(0.01);
    serial.optimizer->step(0.01);
    check_equal(sharded, serial);
  }
}

// 256 + 1 is 256 in bf16.
TEST_CASE("mixed precision: values are gathered in bf16, gradients summed over dp in f32") {
  const int P = world().size();
  if (P == 1) return;
  Traffic traffic;
  Recorder recorded(world(), traffic);
  const DeviceMesh dp(recorded, backend(), {{"dp", P}});
  Linear linear(backend(), I, O), serial(backend(), I, O);
  const auto unit = fully_shard(linear, dp);
  compute_in(linear, DType::BF16);
  initialize(linear, 3), initialize(serial, 3);

  linear.forward(half(backend().full({1, I}, 1)));
  CHECK(unit->bytes() == 2 * I * O);
  CHECK(traffic.total().bytes == Approx((P - 1.0) / P * 2 * I * O));
  unit->unshard();
  CHECK(linear.weight.value().dtype() == DType::BF16);
  CHECK(backend().floats(linear.weight.value()) == backend().floats(half(serial.weight.owned())));
  traffic.clear();
  linear.backward(half(backend().full({1, O}, world().rank() == 0 ? 256 : 1)));
  CHECK(traffic.total().bytes == Approx((P - 1.0) / P * 4 * I * O));
  for (const float g : backend().to_host(linear.weight.owned_gradient())) CHECK(g == 256 + P - 1);
  const Box& mine = linear.weight.owned_box();
  CHECK(differs(linear.weight.owned(), part_of(serial.weight.owned(), mine)) == "");
}
