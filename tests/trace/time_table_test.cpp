// The table of a step's time: what is counted, and that it adds up.
#include "common/support/time_table.hpp"

#include <nlohmann/json.hpp>
#include <numeric>

#include "common/clock.hpp"
#include "common/support/timed.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Watched {
  Activity activity;
  ObservedBackend be{backend()};
  Timed comm{world().split(0, world().rank(), "tp"), activity};
  Totals totals;
  Watched() {
    be.observe([this](const Kernel& kernel) { activity.kernel(kernel); });
    activity.count_into(&totals);
  }
};

double sum_of_shares(const TimeTable& table) {
  return std::accumulate(table.rows.begin(), table.rows.end(), 0.0,
                         [](double s, const TimeRow& r) { return s + r.share; });
}

const TimeRow& row(const TimeTable& table, const std::string& name) {
  const auto found =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const TimeRow& r) { return r.name == name; });
  REQUIRE(found != table.rows.end());
  return *found;
}

}  // namespace

TEST_CASE("time: a collective that is waited for at once is waiting from start to end") {
  Watched w;
  Tensor x = random(cat("x", world().rank()), {35, 2});
  w.comm.all_reduce(x).wait();
  w.comm.sum(1);
  w.activity.count_into(nullptr);
  w.comm.all_reduce(x).wait();
  if (world().size() == 1) {
    CHECK(w.totals.collectives.empty());  // nothing is sent
    return;
  }
  const double P = world().size();
  REQUIRE(w.totals.collectives.size() == 2);
  const Tally& tensors = w.totals.collectives.at("tp all-reduce");
  CHECK(tensors.calls == 1);
  CHECK(tensors.bytes == Approx(2 * (P - 1) / P * 280));
  CHECK(tensors.span > 0);
  CHECK(tensors.seconds == tensors.span);
  CHECK(w.totals.collectives.at("host all-reduce").calls == 1);
}

TEST_CASE("time: behind kernels, a collective costs only what is left to wait") {
  if (world().size() == 1) return;
  Watched w;
  Tensor x = random(cat("x", world().rank()), {35, 2}), y = w.be.zeros({300, 300}), z = w.be.zeros({300, 300});
  w.totals = {};
  Work work = w.comm.all_reduce(x);
  for (int i = 0; i < 3; ++i) w.be.matmul(y, false, y, false, z);
  const Tally kernels = w.totals.kernels.at("matmul");
  work.wait();
  const Tally& sent = w.totals.collectives.at("tp all-reduce");
  CHECK(kernels.calls == 3);
  CHECK(kernels.seconds > 0);
  CHECK(sent.seconds >= 0);
  CHECK(sent.seconds + kernels.seconds <= sent.span);
}

TEST_CASE("time: two collectives at once are never waited for twice") {
  if (world().size() == 1) return;
  Watched w;
  Tensor x = random(cat("x", world().rank()), {50'000}), y = random(cat("y", world().rank()), {50'000});
  const double begin = seconds_now();
  Work first = w.comm.all_reduce(x), second = w.comm.all_reduce(y);
  second.wait();
  first.wait();
  CHECK(w.totals.collectives.at("tp all-reduce").seconds <= seconds_now() - begin);
}

TEST_CASE("time: the table is the mean over ranks, and its shares add up") {
  const int P = world().size(), r = world().rank();
  Totals mine;
  mine.steps = 2, mine.tokens = 1000, mine.seconds = 0.1;
  mine.kernels["matmul"] = {4, 0.02 * (r + 1) / P, 3e9, 100, 0};
  if (r == P - 1) mine.kernels["add"] = {2, 0.004, 0, 50, 0};  // a kernel that one rank alone ran
  mine.collectives["tp all-gather"] = {6, 0.01, 0, 640, 0.05};
  const TimeTable table = time_table(mine, world());
  CHECK(sum_of_shares(table) == Approx(1).epsilon(1e-12));
  CHECK(table.step_ms == Approx(50));
  CHECK(table.tokens_per_s == Approx(10'000));
  CHECK(row(table, "matmul").calls == Approx(2));
  CHECK(row(table, "matmul").ms == Approx(10.0 * (P + 1) / 2 / P));
  CHECK(row(table, "add").calls == Approx(1.0 / P));
  CHECK(row(table, "tp all-gather").ms == Approx(5));
  CHECK(row(table, "tp all-gather").span_ms == Approx(25));
  CHECK(row(table, "other").ms == Approx(50 - 10.0 * (P + 1) / 2 / P - 2.0 / P - 5));
  CHECK(table.rows.back().name == "other");
  CHECK(table.hidden() == Approx(0.8));
  REQUIRE(table.compute_ms.size() == static_cast<size_t>(P));
  CHECK(table.compute_ms[r] == Approx(10.0 * (r + 1) / P + (r == P - 1 ? 2 : 0)));
  CHECK(table.imbalance() == Approx(12 / (10.0 * (P + 1) / 2 / P + 2.0 / P)));
  CHECK_THAT(table.str(), Catch::Contains("10,000 tokens/s"));
  CHECK(table.json()["rows"].size() == 4);
}

TEST_CASE("time: nothing counted is a table of nothing") {
  const TimeTable table = time_table({}, world());
  CHECK(table.rows.size() == 1);
  CHECK(table.imbalance() == 1);
  CHECK_THAT(table.str(), Catch::Contains("other"));
}

TEST_CASE("time: the products of a step are those of the configuration, to the last one") {
  Watched w;
  LlamaConfig c = uneven_config();
  Llama llama(w.be, c);
  initialize(llama, 5);
  const int64_t B = 3, S = 7, steps = 2;
  const TokenData data(S, random_ids("stream", 4 * B * S + 1, c.vocab_size));
  AdamW optimizer(parameters_of(llama));
  CrossEntropy loss(w.be, data.ignore());
  Trainer trainer(llama, optimizer, loss, data, in_order(data.samples(), B), {.schedule = {0.01, 0, steps}});
  w.totals = {};
  const double begin = seconds_now();
  for (int64_t i = 0; i < steps; ++i) trainer.step();
  w.totals.seconds = seconds_now() - begin;
  w.totals.steps = steps;

  const auto [E, H, K, D] = c.attention();
  const int64_t weights =
      c.num_hidden_layers * (2 * E * H * D + 2 * E * K * D + 3 * E * c.intermediate_size) + E * c.vocab_size;
  const int64_t pairs = B * H * S * (S + 1) / 2, layers = c.num_hidden_layers;
  // Forward once, backward twice: for the input and for the weight.
  CHECK(w.totals.kernels.at("matmul").flops == static_cast<double>(steps * 3 * 2 * B * S * weights));
  CHECK(w.totals.kernels.at("attention").flops == static_cast<double>(steps * layers * 4 * D * pairs));
  CHECK(w.totals.kernels.at("attention_backward").flops == static_cast<double>(steps * layers * 10 * D * pairs));
  CHECK(w.totals.kernels.at("adamw").calls == steps);

  if (world().size() > 1) return;  // the tables of ranks that trained at different times say nothing
  const TimeTable table = time_table(w.totals, world());
  CHECK(sum_of_shares(table) == Approx(1).epsilon(1e-12));
  CHECK(table.rows.back().ms >= 0);
  CHECK(row(table, "matmul").flops == Approx(3.0 * 2 * B * S * weights));
}
