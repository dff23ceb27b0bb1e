// The loss on parts of the vocabulary: PyTorch's numbers, and the faults that others met.
#include "chapters/11_loss_parallel/loss_parallel.hpp"

#include <cmath>

#include "common/comm/recorder.hpp"
#include "tests/support/cases.hpp"
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
Result run(const Tensor& logits, const std::vector<int32_t>& targets, int32_t ignore, double divisor,
           DType type = DType::F32) {
  Result r;
  Traffic traffic;
  Recorder recorded(world(), traffic);
  const DeviceMesh tp(recorded, backend(), {{"tp", world().size()}});
  const Layout layout{tp, {Shard(1)}, logits.shape()};
  LossParallel loss(backend(), ignore);
  r.sum = loss.forward(DTensor(backend().in_type(part_of(logits, local_box(tp, {Shard(1)}, logits.shape())), type), layout),
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
  const auto B05 = the_case("B05");
  const auto &in = B05["input"], &right = B05["right"];
  using Labels = std::vector<int32_t>;
  const Tensor logits = tensor_of(in["rows"]);
  const Result a = run(logits, in["a"]["labels"].get<Labels>(), in["a"]["ignore_index"], 1);
  CHECK(a.sum == Approx(right["a"].get<double>()));
  CHECK(differs(a.gradient, my_columns(tensor_of(right["a_dlogits"])), 1e-6) == "");
  const Result none = run(logits, in["b"]["labels"].get<Labels>(), -100, 0);
  CHECK(none.sum == right["b"]);
  CHECK(differs(none.gradient, backend().zeros(none.gradient.shape())) == "");
  CHECK(run(logits, in["d"]["labels"].get<Labels>(), in["d"]["ignore_index"], 1).sum ==
        Approx(right["d"].get<double>()));
  const Tensor row = tensor_of(nlohmann::json::array({in["c"]["row"]}));
  for (const int32_t bad : in["c"]["labels"].get<Labels>()) {
    const std::string words = cat("target ", bad, " at place 0 is not in the vocabulary of 8");
    std::string said;
    try {
      run(row, {bad}, -100, 1);
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK_THAT(said, Catch::Contains(words));
    for (const auto& theirs : world().all_gather_text(said)) CHECK(theirs == said);  // the same on every rank
    CHECK_THROWS_WITH(run(logits, {0, bad}, -100, 2), Catch::Contains("at place 1"));
  }
}

TEST_CASE("B08: a vocabulary that does not divide; gathered logits are refused") {
  const auto B08 = the_case("B08");
  const auto &in = B08["input"], &right = B08["right"];
  for (const char* which : {"a", "c"}) {
    const int64_t V = in[which]["V"];
    const Tensor equal = backend().full({1, V}, in[which]["logits"].get<float>());
    if (world().size() == in[which]["tp"] && right.contains(cat(which, "_shards")))
      CHECK(my_columns(equal).dim(1) == right[cat(which, "_shards")][world().rank()].get<int64_t>());
    for (const int64_t label : {int64_t{0}, V - 1}) {
      INFO(which << ": vocabulary " << V << ", label " << label);
      const Result r = run(equal, {static_cast<int32_t>(label)}, -100, 1);
      // The column too much of (c) is 2e-6 of it.
      CHECK(r.sum == Approx(right[which].get<double>()).epsilon(2e-7));
    }
  }
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const int64_t V = in["b"]["V"];
  LossParallel loss(backend(), -100);
  const Tensor target = backend().from_host(std::vector<int32_t>{1}, {1});
  CHECK_THROWS_AS(loss.forward(backend().zeros({1, V}), target), SharedError);
  CHECK_THROWS_WITH(loss.forward(DTensor(backend().zeros({1, V}), Layout{tp, {Replicate()}, {1, V}}), target),
                    Catch::Contains("S(1)"));
  // Called a part of a vocabulary of 8, or each one a part of its own: not what the placement says either.
  if (world().size() > 1)
    CHECK_THROWS_AS(loss.forward(DTensor(backend().zeros({1, V}), Layout{tp, {Shard(1)}, {1, V}}), target), Error);
}

TEST_CASE("B17: one maximum for all shards") {
  const auto B17 = the_case("B17");
  const auto row = floats_of(B17["input"]["row"]);
  const auto labels = B17["input"]["labels"].get<std::vector<int32_t>>();
  const int64_t V = std::ssize(row), N = std::ssize(labels);
  const Tensor logits = make({N, V}, [&](int64_t i) { return row[i % V]; });
  const Result r = run(logits, labels, -100, static_cast<double>(N));
  CHECK(r.tokens == B17["right"]["loss"].get<std::vector<double>>());
  for (const float g : backend().to_host(r.gradient)) CHECK(std::isfinite(g));
}

// 1000 is a bf16, 60000 lies between two of them.
TEST_CASE("B17: logits in bf16, the loss and what is sent for it in f32") {
  const auto B17 = the_case("B17");
  const auto check = [&](const char* row_name, const char* labels_name, const char* right, double epsilon) {
    const auto row = floats_of(B17["input"][row_name]);
    const auto labels = B17["input"][labels_name].get<std::vector<int32_t>>();
    const int64_t V = std::ssize(row), N = std::ssize(labels);
    const Tensor logits = make({N, V}, [&](int64_t i) { return row[i % V]; });
    const Result r = run(logits, labels, -100, static_cast<double>(N), DType::BF16);
    for (int64_t n = 0; n < N; ++n)
      CHECK(r.tokens[n] == Approx(B17["right"][right][n].get<double>()).margin(1e-6).epsilon(epsilon));
    CHECK(r.gradient.dtype() == DType::BF16);
    for (const float g : backend().floats(r.gradient)) CHECK(std::isfinite(g));
  };
  check("row", "labels", "loss", 1e-6);
  check("f16_row", "f16_labels", "f16_loss", 1.0 / 256);
  const Result zeros = run(backend().zeros({1, 128256}), {128255}, -100, 1, DType::BF16);
  CHECK(zeros.sum == Approx(B17["right"]["bf16_loss"].get<double>()).epsilon(1e-6));
  if (world().size() > 1)
    CHECK(zeros.forward.total().bytes == Approx(3 * ring_bytes(Op::AllReduce, 4, world().size())));
}
