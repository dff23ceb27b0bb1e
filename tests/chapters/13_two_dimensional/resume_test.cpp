// A checkpoint of one mesh goes on on any other: what is loaded is bit by bit what was saved, and the next steps are
// those of the run that never stopped. Sizes that no mesh shares evenly.
#include <filesystem>
#include <fstream>

#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"
#include "common/support/session.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"
#include "tests/support/shared_folder.hpp"

using namespace course;
using namespace course::test;

namespace {

constexpr int64_t saved_at = 3, steps = 6;

// Weights and both moments of a run, a tensor of [weight, mean, square] after the other.
std::vector<const Tensor*> tensors_of(TwoDimensional& run) {
  std::vector<const Tensor*> all;
  for (size_t i = 0; i < run.optimizer->parameters().size(); ++i)
    for (const Tensor* t : std::initializer_list<const Tensor*>{&run.optimizer->parameters()[i]->owned(),
                                                                &run.optimizer->mean(i), &run.optimizer->square(i)})
      all.push_back(t);
  return all;
}

// The parts of a run against the same tensors, whole, of a run on one rank.
void check_parts(TwoDimensional& run, TwoDimensional& whole, double tolerance) {
  const auto parts = tensors_of(run), wholes = tensors_of(whole);
  CHECK(parts.size() == wholes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Parameter& p = *run.optimizer->parameters()[i / 3];
    INFO((i % 3 == 0 ? "weight " : i % 3 == 1 ? "mean of " : "square of ") << p.name());
    CHECK(differs(*parts[i], part_of(*wholes[i], p.owned_box()), tolerance) == "");
  }
}

void resume_everywhere(const MeshSize& from, const PlanChoice& choice, const std::vector<MeshSize>& meshes) {
  INFO("saved on " << show(from, choice));
  const Little little;
  const SharedFolder folder;
  TrainingOptions save, resume;
  save.save = resume.resume = folder.path;
  save.save_every = saved_at;

  const auto alone_comm = world().split(world().rank(), 0, "alone");
  const auto run = little.run(world(), from, choice), uninterrupted = little.run(*alone_comm, {1, 1});
  TrainingCheckpoints checkpoints(save, *run->optimizer, run->mesh, world());
  std::vector<StepResult> expected;
  for (int64_t n = 1; n <= steps; ++n) {
    expected.push_back(uninterrupted->trainer->step());
    if (n > saved_at) continue;
    CHECK(run->trainer->step().loss == Approx(expected.back().loss).epsilon(1e-5));
    checkpoints.after_step(n);
  }

  // Every rank reads all of it by itself: whole tensors, to compare the parts with.
  const auto whole = little.run(*alone_comm, {1, 1});
  TrainingCheckpoints(resume, *whole->optimizer, whole->mesh, *alone_comm).resume();
  CHECK(whole->trainer->steps() == saved_at);
  check_parts(*run, *whole, 0);

  for (const MeshSize& size : meshes) {
    const bool mine = world().rank() < size.dp * size.tp;
    const auto comm = world().split(mine ? 0 : 1, 0, "group");
    if (mine) {
      INFO("resumed on " << show(size, choice));
      const auto resumed = little.run(*comm, size, choice);
      TrainingCheckpoints(resume, *resumed->optimizer, resumed->mesh, *comm).resume();
      check_parts(*resumed, *whole, 0);
      for (int64_t n = saved_at + 1; n <= steps; ++n) {
        const StepResult result = resumed->trainer->step();
        CHECK(result.step == n);
        CHECK(result.loss == Approx(expected[n - 1].loss).epsilon(1e-5));
        CHECK(result.grad_norm == Approx(expected[n - 1].grad_norm).epsilon(1e-4));
        CHECK(result.lr == expected[n - 1].lr);
      }
      check_parts(*resumed, *uninterrupted, 2e-4);
    }
    world().barrier().wait();
  }
}

}  // namespace

TEST_CASE("saved on one mesh, resumed on every other") {
  if (world().size() == 4) {
    const std::vector<MeshSize> meshes = {{1, 4}, {4, 1}, {1, 1}, {2, 1}, {1, 3}, {2, 2}, {3, 1}, {1, 2}};
    for (const PlanChoice& choice : {PlanChoice{PlanKind::Sequence, false}, PlanChoice{PlanKind::Article, true}})
      resume_everywhere({2, 2}, choice, meshes);
    return;
  }
  for (const MeshSize& from : meshes_of(world().size()))
    resume_everywhere(from, {PlanKind::Basic, false}, {{world().size(), 1}, {1, world().size()}, {1, 1}});
}

// Masters are f32 whatever computes: they are saved and loaded bit by bit, and a checkpoint of one type goes on in the other.
TEST_CASE("mixed precision: saved on one mesh, resumed on others and in f32") {
  const Little little;
  for (const MeshSize& from : meshes_of(world().size())) {
    const SharedFolder folder;
    TrainingOptions save, resume;
    save.save = resume.resume = folder.path;
    save.save_every = saved_at;
    const PlanChoice mixed{.loss_parallel = true, .type = DType::BF16};
    INFO("saved on " << show(from, mixed));
    const auto run = little.run(world(), from, mixed);
    TrainingCheckpoints checkpoints(save, *run->optimizer, run->mesh, world());
    for (int64_t n = 1; n <= saved_at; ++n) checkpoints.after_step(run->trainer->step().step);
    const auto again = little.run(world(), from, mixed);
    TrainingCheckpoints(resume, *again->optimizer, again->mesh, world()).resume();
    const auto masters = tensors_of(*run), loaded = tensors_of(*again);
    for (size_t i = 0; i < masters.size(); ++i) CHECK(differs(*loaded[i], *masters[i]) == "");
    const StepResult next = run->trainer->step(), after = again->trainer->step();
    CHECK(after.loss == next.loss);
    CHECK(after.grad_norm == next.grad_norm);
    for (size_t i = 0; i < masters.size(); ++i) CHECK(differs(*loaded[i], *masters[i]) == "");
    for (const MeshSize& size : meshes_of(world().size()))
      for (const DType type : {DType::BF16, DType::F32}) {
        PlanChoice choice = mixed;
        choice.type = type;
        INFO("resumed on " << show(size, choice));
        const auto resumed = little.run(world(), size, choice);
        TrainingCheckpoints(resume, *resumed->optimizer, resumed->mesh, world()).resume();
        CHECK(resumed->trainer->step().loss == Approx(next.loss).epsilon(0.005));
      }
  }
}

TEST_CASE("B19: ten steps on tp, then weights, moments and five more steps on every mesh") {
  constexpr int64_t B = 12, S = 8, saved = 10, all = 15;
  const LlamaConfig config{64, 32, 64, 2, 4, 4};
  const int64_t P = world().size();
  const TokenData data(S, random_ids("stream", 4 * B * S + 1, config.vocab_size));
  const SharedFolder folder;
  TrainingOptions save, resume;
  save.save = resume.resume = folder.path;
  save.save_every = saved;
  const auto make = [&](Comm& comm, const MeshSize& size, uint64_t seed) {
    auto run = std::make_unique<TwoDimensional>(comm, size, config);
    initialize(run->llama, seed);
    run->train_on(data, in_order(data.samples(), B), {.schedule = {1e-3, 2, all}});
    return run;
  };
  const auto run = make(world(), {1, P}, 11);
  TrainingCheckpoints checkpoints(save, *run->optimizer, run->mesh, world());
  for (int64_t n = 1; n <= saved; ++n) {
    run->trainer->step();
    checkpoints.after_step(n);
  }
  const auto alone = world().split(world().rank(), 0, "alone");
  const auto whole = make(*alone, {1, 1}, 12);  // other weights: all of them come from the file
  TrainingCheckpoints(resume, *whole->optimizer, whole->mesh, *alone).resume();
  check_parts(*run, *whole, 0);
  std::vector<double> losses;
  for (int64_t n = saved + 1; n <= all; ++n) losses.push_back(run->trainer->step().loss);

  for (int64_t ranks = 1; ranks <= P; ++ranks)
    for (const MeshSize& size : meshes_of(ranks)) {
      const bool mine = world().rank() < ranks;
      const auto comm = world().split(mine ? 0 : 1, 0, "group");
      if (mine) {
        INFO("resumed on dp " << size.dp << " × tp " << size.tp);
        const auto resumed = make(*comm, size, 13);
        TrainingCheckpoints(resume, *resumed->optimizer, resumed->mesh, *comm).resume();
        CHECK(resumed->trainer->steps() == saved);
        check_parts(*resumed, *whole, 0);
        for (const double loss : losses) CHECK(resumed->trainer->step().loss == Approx(loss).epsilon(1e-5));
      }
      world().barrier().wait();
    }
}

TEST_CASE("B25: a step that is not finite on one rank leaves the last good checkpoint as it was") {
  const Little little;
  const SharedFolder folder;
  TrainingOptions options;
  options.save = options.resume = folder.path;
  options.save_every = 1;
  const MeshSize size = meshes_of(world().size()).front();
  const auto run = little.run(world(), size);
  bool spoil = false;
  const auto finish = run->gradients.finish;
  run->gradients.finish = [&](const Parameters& parameters) {
    finish(parameters);
    Tensor& gradient = parameters.front()->owned_gradient();
    if (!spoil || world().rank() != world().size() - 1 || gradient.numel() == 0) return;
    auto values = backend().to_host(gradient);
    values[0] = std::numeric_limits<float>::infinity();
    backend().copy_in(gradient, values.data());
  };
  little.start(*run);
  TrainingCheckpoints checkpoints(options, *run->optimizer, run->mesh, world());
  const auto step = [&] { checkpoints.after_step(run->trainer->step().step); };
  step();
  spoil = true;
  CHECK_THROWS_WITH(step(), Catch::Contains("step 2: the gradient's norm is inf"));
  CHECK(find_checkpoint(folder.path, world()).ends_with("step-00000001"));
  const auto resumed = little.run(world(), size);
  options.save = "";  // the run above still holds it
  TrainingCheckpoints(options, *resumed->optimizer, resumed->mesh, world()).resume();
  CHECK(resumed->trainer->steps() == 1);
  const auto a = tensors_of(*run), b = tensors_of(*resumed);
  for (size_t i = 0; i < a.size(); ++i) CHECK(differs(*b[i], *a[i]) == "");
}

TEST_CASE("main.cpp stays short") {
  std::ifstream file("chapters/13_two_dimensional/main.cpp");
  int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  CHECK(lines > 0);
  CHECK(lines < 150);
}
