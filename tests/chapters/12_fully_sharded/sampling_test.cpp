// Who reads what, and what is made of it: cases B03, B28 and B29 through the trainer and its share.
#include <nlohmann/json.hpp>

#include "chapters/09_llama/trainer.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/chapters/12_fully_sharded/counted_loss.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

DeviceMesh dp_mesh() { return DeviceMesh(world(), backend(), {{"dp", world().size()}}); }

// A Llama in FSDP units under a loss that is known beforehand.
struct Counted {
  Counted(const TokenData& data, int64_t batch, int32_t ignore, std::function<double(int32_t)> f, double w = 1)
      : mesh(dp_mesh()), llama(backend(), little_config()), loss(backend(), ignore, w, std::move(f)) {
    units = fully_shard_llama(llama, mesh);
    initialize(llama, 3);
    optimizer = std::make_unique<AdamW>(parameters_of(llama));
    trainer = std::make_unique<Trainer>(llama, *optimizer, loss, data, in_order(data.samples(), batch),
                                        TrainerOptions{.schedule = {0, 0, 9}}, share_over(mesh));
  }
  DeviceMesh mesh;
  Llama llama;
  CountedLoss loss;
  FsdpUnits units;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
};

}  // namespace

TEST_CASE("B03: the mean over all valid tokens, in training and in validation, though ranks have 1 and 9 of them") {
  const auto B03 = the_case("B03");
  const double right = B03["right"]["loss_over_w"], w = 0.5;
  const TokenData data = b03_data(B03["input"]);
  Counted run(
      data, 2, 0, [](int32_t target) { return target; }, w);
  const StepResult step = run.trainer->step();
  CHECK(step.tokens == 10);
  CHECK(step.loss / w == Approx(right));
  CHECK(world().sum(run.loss.gradient) == Approx(right));
  CHECK(run.trainer->validate(data, 2, 100) / w == Approx(right));
}

TEST_CASE("B29: a validation of 10 samples counts each once, and every rank ends") {
  const auto B29 = the_case("B29");
  const int64_t N = B29["input"]["N"], dp = B29["input"]["dp"];
  std::vector<int32_t> ids = {0};  // one label a sample: sample i's is i
  for (int32_t i = 0; i < N; ++i) ids.push_back(i);
  const TokenData data(1, ids);
  CHECK(data.samples() == N);
  const std::vector<std::function<double(int32_t)>> losses = {[](int32_t i) { return double(i); },
                                                              [](int32_t i) { return double(i) * i; }};
  for (size_t which = 0; which < losses.size(); ++which)
    for (const int64_t batch : {dp, N, int64_t{3}, int64_t{1}}) {
      INFO("loss " << B29["input"]["loss"][which] << ", batches of " << batch);
      Counted run(data, 1, -100, losses[which]);
      CHECK(run.trainer->validate(data, batch, 100) == Approx(B29["right"]["mean"][which].get<double>()));
    }
}

TEST_CASE("B29: epochs have orders of their own, the same from run to run") {
  const auto order = [](int64_t epoch) {
    return DistributedSampler{.samples = 10, .ranks = 1, .rank = 0, .shuffle = true, .seed = 1}.order(epoch);
  };
  using List = std::vector<int64_t>;
  CHECK(order(0) == List{4, 6, 0, 7, 3, 5, 2, 9, 8, 1});
  CHECK(order(1) == List{1, 3, 5, 4, 6, 7, 9, 2, 8, 0});
}

TEST_CASE("B29: all ranks see the end of a token file at the same step, and none reads past it") {
  const auto B29 = the_case("B29");
  const int64_t T = B29["input"]["T"], ranks = world().size(), global = ranks * B29["input"]["B"].get<int64_t>();
  const DataShare share = share_over(dp_mesh());
  const auto lengths = B29["input"]["tokens"].get<std::vector<int64_t>>();
  for (size_t i = 0; i < lengths.size(); ++i) {
    INFO(lengths[i] << " tokens on " << ranks);
    std::vector<int32_t> ids(lengths[i]);
    for (size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<int32_t>(t);
    const TokenData data(T, ids);
    int64_t steps = 0;
    if (data.samples() < global) {
      CHECK_THROWS_AS(in_order(data.samples(), global), SharedError);
    } else {
      const Sampler next = in_order(data.samples(), global);
      do {
        const auto mine = share.mine(next(steps));
        CHECK(std::ssize(mine) == B29["input"]["B"]);
        for (const int64_t sample : mine) {
          const auto read = data.sample(sample);  // throws past the end
          CHECK(read.back() < lengths[i]);
          CHECK(read.back() == sample * T + T);
        }
        ++steps;
      } while (next(steps) != next(0));
    }
    CHECK(steps == (lengths[i] - 1) / T / global);
    if (ranks == B29["input"]["ranks"]) CHECK(steps == B29["right"]["steps"][i]);
    for (const auto& theirs : world().all_gather_text(std::to_string(steps))) CHECK(theirs == std::to_string(steps));
  }
}
