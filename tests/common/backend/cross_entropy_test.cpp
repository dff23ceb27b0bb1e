#include <cmath>

#include "common/backend/cpu/index.hpp"
#include "tests/common/backend/twin.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

struct Parts {
  Tensor max, sum, picked;
};

// As loss parallel combines them: p shards of the columns.
Parts combined(const Tensor& logits, const Tensor& targets, int64_t p) {
  Backend& be = backend();
  const int64_t N = logits.dim(0), V = logits.dim(1);
  Parts all = {be.full({N}, -INFINITY), be.zeros({N}), be.zeros({N})};
  std::vector<float> top(N, -INFINITY);
  auto shard = [&](int64_t r) { return be.slice(logits, 1, r * V / p, (r + 1) * V / p - r * V / p); };
  for (int64_t r = 0; r < p; ++r) {
    be.row_max(shard(r), all.max);
    const std::vector<float> here = be.to_host(all.max);
    for (int64_t n = 0; n < N; ++n) top[n] = std::max(top[n], here[n]);
  }
  all.max = be.from_host(top, {N});
  for (int64_t r = 0; r < p; ++r) {
    Tensor part = be.empty({N});
    be.row_sum_exp(shard(r), all.max, part);
    be.add(all.sum, part);
    be.pick(shard(r), targets, r * V / p, part);
    be.add(all.picked, part);
  }
  return all;
}

double loss_of(const Parts& parts, const Ints& targets, int64_t ignore) {
  const Values max = values_of(parts.max), sum = values_of(parts.sum), picked = values_of(parts.picked);
  double loss = 0;
  for (size_t n = 0; n < targets.size(); ++n)
    if (targets[n] != ignore) loss += std::log(sum[n]) + max[n] - picked[n];
  return loss;
}

}  // namespace

TEST_CASE("cross entropy: loss and gradient, whole and in shards") {
  Backend& be = backend();
  struct Case {
    int64_t N, V, p;
    float size;
  };
  for (const auto& [N, V, p, size] : {Case{5, 7, 1, 3}, Case{9, 131, 3, 20}, Case{40, 1, 1, 1}, Case{1, 3, 5, 2},
                                      Case{30, 67, 2, 1e4f}, Case{0, 5, 2, 1}, Case{2, 2500, 2, 9}}) {
    CAPTURE(N, V, p, size);
    Ints targets = random_ints("targets", N, 0, V);
    for (int64_t n = 0; n < N; n += 3) targets[n] = -100;
    const Tensor logits = random("logits", {N, V}, size), t = ints(targets, {N});
    const Parts parts = combined(logits, t, p);
    const Values l = values_of(logits);
    CHECK(loss_of(parts, targets, -100) == Approx(twin::cross_entropy(l, targets, -100, V)).epsilon(1e-5).margin(1e-6));
    Values slopes(l.size());
    const double factor = 0.3;
    if (size < 100)
      slopes = slope([&, V = V](const Values& x) { return factor * twin::cross_entropy(x, targets, -100, V); }, l);
    for (int64_t r = 0; r < p; ++r) {
      const int64_t begin = r * V / p, count = (r + 1) * V / p - begin;
      Tensor grad = be.slice(logits, 1, begin, count);
      be.cross_entropy_backward(grad, parts.max, parts.sum, t, begin, -100, factor);
      Values part;
      for (int64_t n = 0; n < N; ++n)
        for (int64_t c = 0; c < count; ++c) part.push_back(slopes[n * V + begin + c]);
      if (size < 100) CHECK(far(grad, part, 2e-6) == "");
      for (double v : values_of(grad)) CHECK(std::isfinite(v));
    }
  }
}

// Shards that differ much, and nothing but equal logits.
TEST_CASE("B17: huge logits in two shards, a vocabulary of equals") {
  Backend& be = backend();
  const auto B17 = the_case("B17");
  const auto labels = B17["input"]["labels"].get<Ints>();
  const Tensor row = tensor_of(nlohmann::json::array({B17["input"]["row"]}));
  for (size_t i = 0; i < labels.size(); ++i)
    CHECK(loss_of(combined(row, ints({labels[i]}, {1}), B17["input"]["tp"]), {labels[i]}, -100) ==
          Approx(B17["right"]["loss"][i].get<double>()).margin(1e-6));
  CHECK(loss_of(combined(be.zeros({1, 128256}), ints({128255}, {1}), 3), {128255}, -100) ==
        Approx(B17["right"]["bf16_loss"].get<double>()).epsilon(1e-6));  // of zeros, in f32
}

// 1000 is a bf16, 60000 lies between two of them: there the loss is that of the rounded row.
TEST_CASE("B17: logits in bf16, their loss in f32") {
  Backend& be = backend();
  const auto B17 = the_case("B17");
  const auto check = [&](const char* row, const char* labels, const char* right, double epsilon) {
    const auto ids = B17["input"][labels].get<Ints>();
    const Tensor logits = be.in_type(tensor_of(nlohmann::json::array({B17["input"][row]})), DType::BF16);
    for (size_t i = 0; i < ids.size(); ++i)
      CHECK(loss_of(combined(logits, ints({ids[i]}, {1}), B17["input"]["tp"]), {ids[i]}, -100) ==
            Approx(B17["right"][right][i].get<double>()).margin(1e-6).epsilon(epsilon));
  };
  check("row", "labels", "loss", 1e-6);
  check("f16_row", "f16_labels", "f16_loss", 1.0 / 256);
  const Tensor zeros = be.in_type(be.zeros({1, 128256}), DType::BF16);
  for (const int64_t shards : {1, 2})
    CHECK(loss_of(combined(zeros, ints({128255}, {1}), shards), {128255}, -100) ==
          Approx(B17["right"]["bf16_loss"].get<double>()).epsilon(1e-6));
}

TEST_CASE("cross entropy: rows of -inf and shards with no columns") {
  Backend& be = backend();
  Tensor max = be.zeros({3}), sum = be.full({3}, 7);
  be.row_max(be.empty({3, 0}), max);
  CHECK(far(max, Values(3, -INFINITY), 0) == "");
  be.row_sum_exp(be.empty({3, 0}), max, sum);
  CHECK(far(sum, Values(3), 0) == "");
  be.row_max(be.full({3, 20}, -INFINITY), max);
  CHECK(far(max, Values(3, -INFINITY), 0) == "");
  be.row_sum_exp(be.full({3, 20}, -INFINITY), max, sum);
  CHECK(far(sum, Values(3), 0) == "");
}

TEST_CASE("cross entropy: a nan reaches the sum") {
  Backend& be = backend();
  const Tensor logits = make({1, 50}, [](int64_t i) { return i == 20 ? NAN : 1.0f; });
  Tensor max = be.empty({1}), sum = be.empty({1});
  be.row_max(logits, max);
  be.row_sum_exp(logits, max, sum);
  CHECK(std::isnan(values_of(sum)[0]));
}

TEST_CASE("cross entropy: an ignored target may be a column") {
  Backend& be = backend();
  Tensor logits = random("logits", {2, 5}), max = be.full({2}, 1), sum = be.full({2}, 5);
  be.cross_entropy_backward(logits, max, sum, ints({3, 2}, {2}), 0, 3, 1);
  CHECK(far(be.slice(logits, 0, 0, 1), Values(5), 0) == "");
  CHECK(values_of(logits)[5 + 2] < -0.5);
}

TEST_CASE("B45: an index has 64 bits, whatever the arguments") {
  const auto B45 = the_case("B45");
  const int V = B45["input"]["V"], row = B45["input"]["row"], column = B45["input"]["column"];
  CHECK(cpu::at(row, V, column) == B45["right"]["index"].get<int64_t>());
  CHECK(numel({B45["input"]["T"].get<int64_t>(), V}) == B45["right"]["elements"].get<int64_t>());
  CHECK(cpu::at(int32_t{16743}, int32_t{128256}) == 2147390208);
}
