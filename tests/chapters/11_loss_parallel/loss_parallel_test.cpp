// The loss on parts of the vocabulary: PyTorch's numbers, and the faults that others met.
#include "chapters/11_loss_parallel/loss_parallel.hpp"

#include <cmath>

#include "common/comm/recorder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"
#include "tests/support/golden.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Result {
  double sum;
  std::vector<double> tokens;
  Tensor gradient;  // this rank's columns
  Traffic forward, backward;
};

// logits [N,V], every rank with its columns.
Result run(const Tensor& logits, const std::vector<int32_t>& targets, int32_t ignore, double divisor) {
  Result r;
  Traffic traffic;
  Recorder recorded(world(), traffic);
  const DeviceMesh tp(recorded, backend(), {{"tp", world().size()}});
  const Layout layout{tp, {Shard(1)}, logits.shape()};
  LossParallel loss(backend(), ignore);
  r.sum = loss.forward(DTensor(part_of(logits, local_box(tp, {Shard(1)}, logits.shape())), layout),
                       backend().from_host(targets, {int64_t(targets.size())}));
  r.tokens = loss.token_losses();
  r.forward = traffic;
  r.gradient = loss.backward(divisor).take(backend());
  r.backward = traffic.since(r.forward);
  return r;
}

Tensor my_columns(const Tensor& whole) {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  return part_of(whole, local_box(tp, {Shard(1)}, whole.shape()));
}

}  // namespace

TEST_CASE("cross-entropy on vocabulary shards", "[golden]") {
  for (const auto& path : golden_files("cross_entropy__")) {
    const Golden golden(path);
    INFO(golden.name());
    const Shape shape = golden.shape("in.logits");
    const int64_t V = shape.back(), N = numel(shape) / V;
    const auto ignore = static_cast<int32_t>(golden.integer("ignore_index"));
    const auto targets = golden.ids("in.targets");
    const auto valid = N - std::count(targets.begin(), targets.end(), ignore);
    const Result r = run(golden.tensor("in.logits").reshape({N, V}), targets, ignore, double(valid));
    const double want = golden.values("out.loss")[0];
    if (valid == 0)
      CHECK(r.sum == 0);
    else
      CHECK(r.sum / double(valid) == Approx(want).epsilon(golden_tolerance(golden)));
    CHECK(differs(std::vector<float>(r.tokens.begin(), r.tokens.end()), golden.values("out.token_loss"), {N},
                  golden_tolerance(golden)) == "");
    CHECK(differs(r.gradient, my_columns(golden.tensor("in.logits").reshape({N, V}).numel() == 0
                                             ? backend().empty({N, V})
                                             : golden.tensor("grad.logits").reshape({N, V})),
                  golden_tolerance(golden)) == "");
  }
}

TEST_CASE("three all-reduces of one number a token forward, nothing backward") {
  const int64_t N = 5, V = 11, P = world().size();
  const Result r = run(random("logits", {N, V}), {0, 3, 10, 7, 5}, -100, 5);
  CHECK(r.forward.count(Op::AllReduce) == (P > 1 ? 3 : 0));
  CHECK(r.forward.total().calls == r.forward.count(Op::AllReduce));
  CHECK(r.forward.bytes(Op::AllReduce) == Approx(3 * 2.0 * double(P - 1) / double(P) * double(N) * 4));
  CHECK(r.backward.total().calls == 0);
}

TEST_CASE("B05: ignored, all ignored, invalid labels") {
  const Tensor logits = make({2, 8}, [](int64_t i) { return i < 8 ? float(i) : 0.f; });
  CHECK(run(logits, {-100, 3}, -100, 1).sum == Approx(2.0794415));
  const Result none = run(logits, {-100, -100}, -100, 0);
  CHECK(none.sum == 0);
  CHECK(differs(none.gradient, backend().zeros(none.gradient.shape())) == "");
  CHECK(run(logits, {7, 3}, 3, 1).sum == Approx(0.4583396));
  for (const int32_t bad : {8, -1, INT32_MIN})
    CHECK_THROWS_WITH(run(logits, {0, bad}, -100, 2), Catch::Contains(std::to_string(bad)) && Catch::Contains("8"));
}

TEST_CASE("B08: a vocabulary that does not divide; gathered logits are refused") {
  CHECK(run(backend().zeros({1, 10}), {9}, -100, 1).sum == Approx(2.3025851));
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  LossParallel loss(backend(), -100);
  const Tensor target = backend().from_host(std::vector<int32_t>{1}, {1});
  CHECK_THROWS_AS(loss.forward(backend().zeros({1, 8}), target), SharedError);
  CHECK_THROWS_WITH(loss.forward(DTensor(backend().zeros({1, 8}), Layout{tp, {Replicate()}, {1, 8}}), target),
                    Catch::Contains("S(1)"));
}

TEST_CASE("B17: one maximum for all shards") {
  const float row[] = {1000, 0, 0, 0, -1000, 0, 0, 0};
  const Tensor logits = make({3, 8}, [&](int64_t i) { return row[i % 8]; });
  const Result r = run(logits, {0, 1, 4}, -100, 3);
  CHECK(r.tokens == std::vector<double>{0, 1000, 2000});
}
