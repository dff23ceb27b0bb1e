// A training that stops and goes on: bit by bit the uninterrupted one on the same ranks, and its losses on any others.
// What would go on with something else is refused.
#include <filesystem>

#include "chapters/09_llama/training_options.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"
#include "tests/chapters/10_tensor_parallel_training/tensor_parallel.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shared_folder.hpp"

using namespace course;
using namespace course::test;
namespace fs = std::filesystem;

namespace {

// Weights and both moments, a parameter after the other.
std::vector<const Tensor*> tensors_of(TensorParallel& run) {
  std::vector<const Tensor*> all;
  for (size_t i = 0; i < run.optimizer->parameters().size(); ++i)
    for (const Tensor* t : std::initializer_list<const Tensor*>{&run.optimizer->parameters()[i]->owned(),
                                                                &run.optimizer->mean(i), &run.optimizer->square(i)})
      all.push_back(t);
  return all;
}

// A run's parts, bit by bit, against a run that has them whole.
void check_parts(TensorParallel& run, TensorParallel& whole) {
  const auto parts = tensors_of(run), wholes = tensors_of(whole);
  CHECK(parts.size() == wholes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Parameter& p = *run.optimizer->parameters()[i / 3];
    INFO((i % 3 == 0 ? "weight " : i % 3 == 1 ? "exp_avg of " : "exp_avg_sq of ") << p.name());
    CHECK(differs(*parts[i], part_of(*wholes[i], p.owned_box())) == "");
  }
}

TrainingOptions saving(const SharedFolder& folder, int64_t every) {
  TrainingOptions o;
  o.save = folder.path;
  o.save_every = every;
  return o;
}

TrainingOptions resuming(const std::string& path) {
  TrainingOptions o;
  o.resume = path;
  return o;
}

}  // namespace

TEST_CASE("B10: stopped after 5 steps and gone on with, ten steps are the uninterrupted ten, bit by bit") {
  const auto B10 = the_case("B10");
  const auto &in = B10.at("input"), &right = B10.at("right");
  const int64_t stop = in.at("resume_after"), accumulate = in.at("accumulation"), B = 2 * accumulate;
  const TrainerOptions options{.schedule = {in.at("peak"), in.at("warmup_steps"), 20}, .accumulate = accumulate};
  const TokenData data(7, random_ids("stream", 12 * B * 7 + 1, 61));
  for (const PlanKind plan : all_plans) {
    INFO("plan " << name_of(plan));
    const SharedFolder folder;
    std::vector<int64_t> batches;
    const auto make = [&](uint64_t seed) {
      auto run = std::make_unique<TensorParallel>(world(), little_config(), plan);
      initialize(run->llama, seed);
      run->train_on(
          data, [&, in_order = in_order(data.samples(), B)](int64_t b) { return batches.push_back(b), in_order(b); },
          options);
      return run;
    };
    const auto A = make(42), first = make(42);
    std::vector<StepResult> expected;
    for (int64_t n = 1; n <= 10; ++n) expected.push_back(A->trainer->step());
    const TrainingOptions save = saving(folder, stop);
    TrainingCheckpoints checkpoints(save, *first->optimizer, first->mesh, world());
    for (int64_t n = 1; n <= stop; ++n) {
      first->trainer->step();
      checkpoints.after_step(n);
    }

    const auto second = make(43);  // other weights: all of them come from the file
    const TrainingOptions resume = resuming(folder.path);
    TrainingCheckpoints(resume, *second->optimizer, second->mesh, world()).resume();
    CHECK(second->trainer->steps() == stop);
    batches.clear();
    for (int64_t n = stop + 1; n <= 10; ++n) {
      const StepResult result = second->trainer->step();
      CHECK(result.step == n);
      CHECK(result.loss == expected[n - 1].loss);
      CHECK(result.grad_norm == expected[n - 1].grad_norm);
      CHECK(result.lr == expected[n - 1].lr);
      if (n > stop + 1) continue;
      CHECK(second->optimizer->steps() == right.at("t"));
      CHECK(batches.front() * accumulate == right.at("first_micro_batch"));
      CHECK(result.lr == Approx(right.at("lr_from_0.1").get<double>()).epsilon(1e-12));
    }
    const auto a = tensors_of(*A), b = tensors_of(*second);
    for (size_t i = 0; i < a.size(); ++i) CHECK(differs(*b[i], *a[i]) == "");
  }
}

TEST_CASE("B19: weights and moments of these ranks on every split of them, and the next losses") {
  constexpr int64_t B = 2, S = 16, saved = 10, all = 15;
  LlamaConfig even{64, 32, 64, 2, 4, 4}, uneven{61, 22, 41, 2, 6, 3};
  uneven.head_dim = 4;
  for (const LlamaConfig& config : {even, uneven}) {
    const TokenData data(S, random_ids("stream", 16 * B * S + 1, config.vocab_size));
    const SharedFolder folder;
    const auto make = [&](Comm& comm, uint64_t seed, PlanKind plan) {
      auto run = std::make_unique<TensorParallel>(comm, config, plan);
      initialize(run->llama, seed);
      run->train_on(data, in_order(data.samples(), B), {.schedule = {1e-3, 2, all}});
      return run;
    };
    const auto run = make(world(), 11, PlanKind::Sequence);
    const TrainingOptions save = saving(folder, saved), resume = resuming(folder.path);
    TrainingCheckpoints checkpoints(save, *run->optimizer, run->mesh, world());
    for (int64_t n = 1; n <= saved; ++n) run->trainer->step();
    checkpoints.after_step(saved);

    const auto alone = world().split(world().rank(), 0, "alone");
    const auto whole = make(*alone, 12, PlanKind::Basic);
    TrainingCheckpoints(resume, *whole->optimizer, whole->mesh, *alone).resume();
    check_parts(*run, *whole);
    std::vector<double> losses;
    for (int64_t n = saved + 1; n <= all; ++n) losses.push_back(run->trainer->step().loss);

    for (int size = 1; size <= world().size(); ++size)
      for (const PlanKind plan : {PlanKind::Sequence, PlanKind::Article}) {
        // Ranks of a group side by side; the last group is smaller where they do not divide.
        const auto group = world().split(world().rank() / size, 0, "group");
        INFO("vocabulary " << config.vocab_size << ", resumed on " << group->size() << ", plan " << name_of(plan));
        const auto resumed = make(*group, 13, plan);
        TrainingCheckpoints(resume, *resumed->optimizer, resumed->mesh, *group).resume();
        CHECK(resumed->trainer->steps() == saved);
        check_parts(*resumed, *whole);
        for (const double loss : losses) CHECK(resumed->trainer->step().loss == Approx(loss).epsilon(1e-5));
      }
    world().barrier().wait();
  }
}

TEST_CASE("another model, batch, length or kind of samples is refused, and so is another run's folder") {
  const SharedFolder folder;
  const std::string elsewhere = folder.path / "elsewhere";
  TensorParallel run(world(), little_config(), PlanKind::Sequence);
  initialize(run.llama, 1);
  const TokenData data(4, random_ids("stream", 41, 61));
  run.train_on(data, in_order(data.samples(), 2), {.schedule = {1e-3, 1, 4}});
  const auto options = [&](const std::string& preset, const std::string& save, const std::string& resume) {
    TrainingOptions o;
    Cli cli("test", "flags");
    o.add_to(cli, {.tp = true, .plan = true, .checkpoints = true});
    o.preset = preset;
    o.save = save;
    o.resume = resume;
    o.settle(cli, world().size());
    return o;
  };
  const auto checkpoints = [&](const TrainingOptions& o) {
    return TrainingCheckpoints(o, *run.optimizer, run.mesh, world());
  };
  TrainingOptions tiny = options("tiny", folder.path, "");
  tiny.save_every = 1;
  run.trainer->step();
  checkpoints(tiny).after_step(1);

  const auto refused = [&](const TrainingOptions& o, const std::string& says) {
    auto reader = checkpoints(o);
    CHECK_THROWS_WITH(reader.resume(), Catch::Contains("was trained with") && Catch::Contains(says));
  };
  refused(options("small", "", folder.path), "model");
  TrainingOptions other = options("tiny", "", folder.path);
  other.batch = 4;
  refused(other, "batch 8, this run has 4");
  other = options("tiny", "", folder.path);
  other.seq = 32;
  refused(other, "seq 64, this run has 32");
  other = options("tiny", "", folder.path);
  other.samples = "document";
  refused(other, "samples");
  CHECK_NOTHROW(checkpoints(options("tiny", "", folder.path)).resume());

  const auto another_run = Catch::Contains("holds another run's checkpoints");
  CHECK_THROWS_WITH(checkpoints(options("tiny", folder.path, "")), another_run);
  TrainingOptions there = options("tiny", elsewhere, "");
  there.save_every = 1;
  checkpoints(there).after_step(1);
  CHECK_THROWS_WITH(checkpoints(options("tiny", folder.path, elsewhere)), another_run);
  CHECK_NOTHROW(checkpoints(options("tiny", folder.path, folder.path)));
  CHECK_NOTHROW(checkpoints(options("tiny", folder.path, folder.path / "step-00000001/")));
  CHECK_THROWS_WITH(checkpoints(options("tiny", "", folder.path / "none")).resume(),
                    Catch::Contains("no such folder"));
}
