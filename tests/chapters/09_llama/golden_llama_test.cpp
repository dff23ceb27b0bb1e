// PyTorch's numbers: the model, the loss, the optimizer, the clipping, the schedule, and twenty steps of all together.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/chapters/09_llama/golden_llama.hpp"

using namespace course;
using namespace course::test;

namespace {

float as_float(double value) { return static_cast<float>(value); }

// The parameters that `names` lists, filled from in.NAME where the file has it, with gradients of in.grad.NAME.
struct Named {
  std::vector<std::unique_ptr<Parameter>> own;
  Parameters parameters;
  explicit Named(const Golden& golden, const std::string& shape_of) {
    for (const auto& name : golden.texts("names")) {
      own.push_back(std::make_unique<Parameter>(backend(), name, golden.shape(shape_of + name), Init{}));
      own.back()->fill(golden.has("in." + name) ? golden.values("in." + name)
                                                : std::vector<float>(numel(golden.shape(shape_of + name))));
      parameters.push_back(own.back().get());
    }
  }
  void set_gradients(const Golden& golden, const std::string& prefix) {
    for (Parameter* p : parameters) {
      p->clear_gradient();
      backend().add(p->gradient(), golden.tensor(prefix + p->name()));
    }
  }
};

}  // namespace

TEST_CASE("llama: logits, loss and every gradient", "[golden]") {
  for (const auto& path : golden_files("llama__")) {
    const Golden golden(path);
    INFO(golden.name());
    Llama llama(backend(), config_of(golden));
    CrossEntropy loss(backend(), pad_of(golden));
    check_golden_llama(golden, llama, loss);
  }
}

TEST_CASE("cross-entropy", "[golden]") {
  for (const auto& path : golden_files("cross_entropy__")) {
    const Golden golden(path);
    INFO(golden.name());
    const double tolerance = golden_tolerance(golden);
    CrossEntropy loss(backend(), static_cast<int32_t>(golden.integer("ignore_index")));
    const Tensor targets = golden.tensor("in.targets");
    const int64_t valid = loss.valid(targets);
    CHECK(valid == golden.integer("counted_tokens"));
    const double sum = loss.forward(golden.tensor("in.logits"), targets);
    const DTensor gradient = loss.backward(static_cast<double>(valid));
    if (golden.says("expected_loss")) {  // nan in PyTorch
      CHECK(sum == 0);
      CHECK(differs(gradient.local(), backend().zeros(golden.shape("in.logits"))) == "");
      continue;
    }
    CHECK(differs({as_float(sum / static_cast<double>(valid))}, golden.values("out.loss"), {1}, tolerance) == "");
    const std::vector<float> each(loss.token_losses().begin(), loss.token_losses().end());
    CHECK(differs(each, golden.values("out.token_loss"), golden.shape("out.token_loss"), tolerance) == "");
    CHECK(differs(gradient.local(), golden.tensor("grad.logits"), tolerance) == "");
  }
}

TEST_CASE("AdamW, step by step", "[golden]") {
  for (const auto& path : golden_files("adamw__")) {
    const Golden golden(path);
    Named named(golden, "in.");
    AdamW optimizer(named.parameters, adamw_of(golden));
    const auto rates = golden.numbers("lrs");
    for (int64_t step = 1; step <= golden.integer("steps"); ++step) {
      named.set_gradients(golden, cat("in.grad.", step, "."));
      optimizer.step(rates[step - 1]);
      CHECK(optimizer.steps() == step);
      for (Parameter* p : named.parameters) {
        INFO(golden.name() << ", step " << step << ", " << p->name());
        CHECK(differs(p->value(), golden.tensor(cat("out.", step, ".", p->name())), golden_tolerance(golden)) == "");
      }
    }
    for (size_t i = 0; i < named.parameters.size(); ++i) {
      const std::string& name = named.parameters[i]->name();
      INFO(golden.name() << ", moments of " << name);
      CHECK(differs(optimizer.mean(i), golden.tensor("out.exp_avg." + name), golden_tolerance(golden)) == "");
      CHECK(differs(optimizer.square(i), golden.tensor("out.exp_avg_sq." + name), golden_tolerance(golden)) == "");
    }
  }
}

TEST_CASE("clipping by the global norm", "[golden]") {
  for (const auto& path : golden_files("clip_grad_norm__")) {
    const Golden golden(path);
    INFO(golden.name());
    Named named(golden, "in.grad.");
    named.set_gradients(golden, "in.grad.");
    const double norm = std::sqrt(squared_norm(named.parameters));
    CHECK(differs({as_float(norm)}, golden.values("out.total_norm"), {1}, golden_tolerance(golden)) == "");
    clip_gradients(named.parameters, norm, golden.number("max_norm"));
    for (Parameter* p : named.parameters) {
      INFO(p->name());
      CHECK(differs(p->gradient(), golden.tensor("out.grad." + p->name()), golden_tolerance(golden)) == "");
    }
  }
}

TEST_CASE("the learning rate, step by step and at the seam", "[golden]") {
  for (const auto& path : golden_files("lr_schedule__")) {
    const Golden golden(path);
    INFO(golden.name());
    const LrSchedule schedule{golden.number("lr"), golden.integer("warmup_steps"), golden.integer("total_steps")};
    std::vector<float> rates;
    for (int64_t s = 0; s <= schedule.total; ++s) rates.push_back(as_float(schedule.at(s)));
    CHECK(differs(rates, golden.values("out.lr"), golden.shape("out.lr"), golden_tolerance(golden)) == "");
    const auto seam = nlohmann::json::parse(golden.text("seam"));
    for (const auto& [step, rate] : seam.items()) {
      INFO("step " << step);
      CHECK(schedule.at(std::stoll(step)) == Approx(rate.get<double>()).epsilon(1e-13));
    }
    CHECK(schedule.at(schedule.total + 7) == 0);
  }
}

TEST_CASE("a schedule without room for both halves") {
  CHECK(LrSchedule{1, 0, 10}.at(0) == 1);
  CHECK(LrSchedule{1, 10, 10}.at(9) == Approx(0.91));
  CHECK(LrSchedule{1, 10, 10}.at(10) == 1);
  CHECK(LrSchedule{1, 20, 10}.at(9) == Approx(0.505));
}

TEST_CASE("mixed precision: every loss of the twenty steps is within 2 % of f32's", "[golden]") {
  for (const auto& path : golden_files("train__")) {
    const Golden golden(path);
    INFO(golden.name());
    Llama llama(backend(), config_of(golden));
    compute_in(llama, DType::BF16);
    for (Parameter* p : parameters_of(llama)) p->fill(golden.values("initial." + p->name()));
    const TokenData data = stream_of(golden);
    AdamW optimizer(parameters_of(llama), adamw_of(golden));
    CrossEntropy loss(backend(), pad_of(golden));
    Trainer trainer(llama, optimizer, loss, data, batches_of(golden), training_of(golden));
    bool rounded = false;
    for (const float want : golden.values("out.loss")) {
      const double got = trainer.step().loss;
      CHECK(got == Approx(want).epsilon(0.02));
      rounded = rounded || std::abs(got - want) > 1e-4 * want;
    }
    CHECK(rounded);  // it was not f32 that computed
  }
}

TEST_CASE("training: every loss, norm and rate, and the weights at the end", "[golden]") {
  for (const auto& path : golden_files("train__")) {
    const Golden golden(path);
    INFO(golden.name());
    Llama llama(backend(), config_of(golden));
    for (Parameter* p : parameters_of(llama)) p->fill(golden.values("initial." + p->name()));

    const TokenData data = stream_of(golden);
    const int64_t steps = golden.shape("in.tokens")[0];
    AdamW optimizer(parameters_of(llama), adamw_of(golden));
    CrossEntropy loss(backend(), pad_of(golden));
    Trainer trainer(llama, optimizer, loss, data, batches_of(golden), training_of(golden));

    std::vector<float> losses, norms, rates;
    for (int64_t n = 1; n <= steps; ++n) {
      const StepResult result = trainer.step();
      CHECK(result.step == n);
      losses.push_back(as_float(result.loss));
      norms.push_back(as_float(result.grad_norm));
      rates.push_back(as_float(result.lr));
    }
    const double tolerance = golden_tolerance(golden, "tol_loss");
    CHECK(differs(losses, golden.values("out.loss"), {steps}, tolerance) == "");
    CHECK(differs(norms, golden.values("out.grad_norm"), {steps}, tolerance) == "");
    CHECK(differs(rates, golden.values("out.lr"), {steps}, tolerance) == "");
    for (Parameter* p : parameters_of(llama)) {
      INFO("final " << p->name());
      CHECK(differs(p->value(), golden.tensor("final." + p->name()), golden_tolerance(golden)) == "");
    }
  }
}
