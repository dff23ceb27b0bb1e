// A step: micro-batches, padding, a gradient that is not finite; the loss of held-out text.
#include "chapters/09_llama/trainer.hpp"

#include <cmath>
#include <limits>

#include "chapters/09_llama/clip.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr int64_t S = 7;

// Documents of uneven length, ids below 61.
const TokenData& padded_data() {
  static const TokenData data = [] {
    TokenizerData marks;
    marks.tokens = {"[PAD]", "[BOT]", "[EOT]"};
    for (int i = 3; i < 61; ++i) marks.tokens.emplace_back(1, static_cast<char>('!' + i));
    marks.in_vocab.assign(marks.tokens.size(), true);
    std::vector<std::string> documents;
    for (int d = 0; d < 11; ++d) {
      std::string text;
      for (const int32_t id : random_ids(cat("document ", d), d % 6, 50)) text += static_cast<char>('!' + 3 + id);
      documents.push_back(text);
    }
    return TokenData(SampleKind::Document, S, Tokenizer(marks), documents);
  }();
  return data;
}

// Everything that a trainer needs.
struct Training {
  Llama llama{backend(), little_config()};
  CrossEntropy loss;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
  explicit Training(const TokenData& data, TrainerOptions options, GradientSteps gradients = {}, int64_t batch = 6)
      : loss(backend(), data.ignore()) {
    initialize(llama, 3);
    optimizer = std::make_unique<AdamW>(parameters_of(llama));
    trainer = std::make_unique<Trainer>(llama, *optimizer, loss, data, in_order(data.samples(), batch), options,
                                        DataShare{}, std::move(gradients));
  }
};

// The mean loss of these samples, each computed alone.
double mean_one_by_one(Training& t, const TokenData& data, int64_t count) {
  double sum = 0, tokens = 0;
  t.llama.set_training(false);
  for (int64_t i = 0; i < count; ++i) {
    const Batch one = make_batch(backend(), data, {i});
    t.llama.context().attend = one.attend.defined() ? &one.attend : nullptr;
    sum += t.loss.forward(t.llama.forward(backend().clone(one.ids)), one.targets);
    tokens += static_cast<double>(t.loss.valid(one.targets));
  }
  t.llama.context().attend = nullptr;
  t.llama.set_training(true);
  return sum / tokens;
}

}  // namespace

TEST_CASE("micro-batches with unequal padding make the step of the whole batch") {
  const LrSchedule schedule{1e-2, 2, 5};
  Training whole(padded_data(), {.schedule = schedule});
  for (const int64_t parts : {2, 3, 6}) {
    Training pieces(padded_data(), {.schedule = schedule, .accumulate = parts});
    Training alone(padded_data(), {.schedule = schedule});
    for (int step = 1; step <= 3; ++step) {
      INFO(parts << " micro-batches, step " << step);
      const StepResult a = alone.trainer->step(), b = pieces.trainer->step();
      CHECK(b.step == step);
      CHECK(b.tokens == a.tokens);
      CHECK(b.loss == Approx(a.loss).epsilon(1e-6));
      CHECK(b.grad_norm == Approx(a.grad_norm).epsilon(1e-5));
      CHECK(b.lr == a.lr);
    }
    const auto a = values_of(alone.llama), b = values_of(pieces.llama);
    for (size_t i = 0; i < a.size(); ++i) CHECK(differs(b[i], a[i], 2e-4) == "");  // Adam divides by small numbers
  }
}

TEST_CASE("a step's loss is the mean over valid tokens, before its update") {
  Training t(padded_data(), {.schedule = {1e-2, 0, 5}});
  const double before = mean_one_by_one(t, padded_data(), 6);
  const StepResult result = t.trainer->step();
  CHECK(result.loss == Approx(before).epsilon(1e-6));
  int64_t valid = 0;
  for (int64_t i = 0; i < 6; ++i) valid += t.loss.valid(make_batch(backend(), padded_data(), {i}).targets);
  CHECK(result.tokens == valid);
  CHECK(t.llama.context().attend == nullptr);
  for (Parameter* p : parameters_of(t.llama)) CHECK_FALSE(p->has_gradient());
}

TEST_CASE("the loss falls where the same batch comes again") {
  Training t(padded_data(), {.schedule = {1e-2, 0, 1000}});
  const double first = t.trainer->step().loss;
  double last = first;
  for (int i = 0; i < 15; ++i) last = t.trainer->step().loss;
  CHECK(last < first / 2);
}

TEST_CASE("held-out loss: every sample once, in batches that do not divide") {
  Training t(padded_data(), {.schedule = {1e-2, 0, 5}});
  const auto before = values_of(t.llama);
  for (const auto& [batch, most] : {std::pair<int64_t, int64_t>{4, 100}, {11, 11}, {3, 10}, {20, 7}, {1, 1}}) {
    INFO("batches of " << batch << ", at most " << most);
    const int64_t count = std::min(most, padded_data().samples());
    CHECK(t.trainer->validate(padded_data(), batch, most) ==
          Approx(mean_one_by_one(t, padded_data(), count)).epsilon(1e-6));
  }
  CHECK(t.trainer->validate(TokenData(S, {1, 2}), 4, 100) == 0);  // no sample
  CHECK(t.trainer->steps() == 0);
  CHECK(t.llama.training());
  const auto after = values_of(t.llama);
  for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
}

TEST_CASE("B25: a gradient that is not finite is refused, and the weights stay as they are") {
  const TokenData data(S, random_ids("stream", 200, 61));
  for (const float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    bool spoil = false;
    Training t(data, {.schedule = {1e-2, 0, 9}}, {.finish = [&](const Parameters& parameters) {
                 if (!spoil) return;
                 auto g = backend().to_host(parameters[4]->gradient());
                 g[3] = poison;
                 backend().copy_in(parameters[4]->gradient(), g.data());
               }});
    t.trainer->step();
    const auto before = values_of(t.llama);
    const auto mean = backend().to_host(t.optimizer->mean(4));
    spoil = true;
    std::string said;
    try {
      t.trainer->step();
    } catch (const SharedError& error) {
      said = error.what();
    }
    INFO(said);
    CHECK(said.starts_with("step 2: the gradient's norm is "));
    CHECK(t.trainer->steps() == 1);
    const auto after = values_of(t.llama);
    for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
    CHECK(backend().to_host(t.optimizer->mean(4)) == mean);
    spoil = false;
    CHECK(std::isfinite(t.trainer->step().loss));  // and the next step is a step
  }
}

TEST_CASE("B25: a loss that is not finite is refused, though its gradient is") {
  struct Overflown : CrossEntropy {
    using CrossEntropy::CrossEntropy;
    double forward(DTensor logits, const Tensor& targets) override {
      CrossEntropy::forward(std::move(logits), targets);
      return std::numeric_limits<double>::infinity();
    }
  };
  const TokenData data(S, random_ids("stream", 200, 61));
  Training t(data, {.schedule = {1e-2, 0, 9}});
  Overflown loss(backend(), data.ignore());
  Trainer trainer(t.llama, *t.optimizer, loss, data, in_order(data.samples(), 6), {.schedule = {1e-2, 0, 9}});
  const auto before = values_of(t.llama);
  CHECK_THROWS_WITH(trainer.step(), Catch::StartsWith("step 1: the gradient's norm is ") && Catch::Contains(", the loss inf;"));
  const auto after = values_of(t.llama);
  for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
}

TEST_CASE("B25: what is clipped is what the optimizer sees") {
  for (const double most : {1.0, 10.0}) {
    Parameter a(backend(), "a", {4}, Init{}), b(backend(), "b", {1}, Init{});
    a.fill(std::vector<float>(4)), b.fill(std::vector<float>(1));
    backend().copy_in(a.gradient(), std::vector<float>{3, 0, 0, 0}.data());
    backend().copy_in(b.gradient(), std::vector<float>{4}.data());
    const Parameters both = {&a, &b};
    const double norm = std::sqrt(squared_norm(both));
    CHECK(norm == 5);
    clip_gradients(both, norm, most);
    CHECK(std::sqrt(squared_norm(both)) == Approx(most < 5 ? 1.0 : 5.0).epsilon(1e-6));
  }
  CHECK_THROWS_AS(clip_gradients({}, std::nan(""), 1), SharedError);
  CHECK_THROWS_AS(clip_gradients({}, HUGE_VAL, 1), SharedError);
}

TEST_CASE("a batch without a valid token is counted and changes nothing") {
  const TokenData data(S, std::vector<int32_t>(100, 5));
  Llama llama(backend(), little_config());
  initialize(llama, 3);
  AdamW optimizer(parameters_of(llama));
  CrossEntropy loss(backend(), 5);
  Trainer trainer(llama, optimizer, loss, data, in_order(data.samples(), 4), {.schedule = {1e-2, 0, 9}});
  const auto before = values_of(llama);
  const StepResult result = trainer.step();
  CHECK(result.step == 1);
  CHECK(result.loss == 0);
  CHECK(result.tokens == 0);
  CHECK(result.grad_norm == 0);
  const auto after = values_of(llama);
  for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
}

TEST_CASE("the loss refuses what is no target, and logits in parts") {
  CrossEntropy loss(backend(), -100);
  for (const int32_t wrong : {8, -1, std::numeric_limits<int32_t>::min()}) {
    INFO(wrong);
    CHECK_THROWS_AS(loss.forward(random("l", {2, 8}), backend().from_host(std::vector<int32_t>{3, wrong}, {2})), Error);
  }
  CHECK_THROWS_AS(loss.forward(random("l", {2, 8}), backend().from_host(std::vector<int32_t>{3}, {1})), Error);
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  for (const Placement& p : {Placement(Shard(1)), Placement(Partial())})
    CHECK_THROWS_AS(loss.forward(DTensor::from_local(random("l", {2, 8}), tp, {p}),
                                 backend().from_host(std::vector<int32_t>{3, 4}, {2})),
                    Error);
}
