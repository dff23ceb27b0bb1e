// Cases B03 and B28 on every dp × tp of these ranks: who reads what, and what the loss is divided by.
#include <nlohmann/json.hpp>
#include <set>

#include "tests/chapters/12_fully_sharded/counted_loss.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"
#include "tests/support/cases.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("B03: 9.2 on every mesh, in training and in validation") {
  const auto B03 = the_case("B03");
  const double right = B03["right"]["loss_over_w"], w = 0.5;
  const TokenData data = b03_data(B03["input"]);
  for (const MeshSize& size : meshes_of(world().size())) {
    INFO("dp " << size.dp << " × tp " << size.tp);
    TwoDimensional run(world(), size, uneven_config());
    initialize(run.llama, 3);
    AdamW optimizer(parameters_of(run.llama));
    CountedLoss loss(backend(), 0, w, [](int32_t target) { return target; });
    Trainer trainer(run.llama, optimizer, loss, data, in_order(data.samples(), 2), {.schedule = {0, 0, 9}}, run.share,
                    run.gradients);
    const StepResult step = trainer.step();
    CHECK(step.tokens == 10);
    CHECK(step.loss / w == Approx(right));
    CHECK(run.mesh["dp"].comm().sum(loss.gradient) == Approx(right));
    CHECK(trainer.validate(data, 2, 100) / w == Approx(right));
  }
}

// Of the case's own count of ranks: ctest runs the cases tagged [6 ranks] on six.
TEST_CASE("B28: a tp group reads the same, and dp reads each sample once", "[6 ranks]") {
  const auto B28 = the_case("B28");
  const int64_t N = B28["input"]["samples"], ranks = world().size();
  using List = std::vector<int64_t>;
  List all;
  for (int64_t i = 0; i < N; ++i) all.push_back(i);
  for (const MeshSize& size : meshes_of(ranks))
    for (const bool shuffle : {false, true}) {
      INFO("dp " << size.dp << " × tp " << size.tp << (shuffle ? ", shuffled" : ""));
      const DeviceMesh mesh(world(), backend(), {{"dp", size.dp}, {"tp", size.tp}});
      const List mine = DistributedSampler{N, size.dp, mesh.coordinate(0), shuffle, 42}.order();
      if (!shuffle) CHECK(share_over(mesh["dp"]).mine(all) == mine);  // what the programs read
      std::vector<List> read;
      for (const auto& text : world().all_gather_text(nlohmann::json(mine).dump()))
        read.push_back(nlohmann::json::parse(text));
      std::multiset<int64_t> by_dp;
      for (int64_t r = 0; r < ranks; ++r) {
        CHECK(read[r] == read[r / size.tp * size.tp]);  // as the first of its tp group
        if (r % size.tp == 0) by_dp.insert(read[r].begin(), read[r].end());
      }
      CHECK(by_dp == std::multiset<int64_t>(all.begin(), all.end()));
      if (!shuffle && size.dp == B28["input"]["dp"] && size.tp == B28["input"]["tp"])
        CHECK(mine == B28["right"]["rank"][world().rank()].get<List>());
      if (shuffle && ranks > 1) CHECK(DistributedSampler{N, 1, 0, true, 42}.order() != all);
    }
}

TEST_CASE("B28: samples dealt over the world are found inside a tp group, before the step") {
  const Little little;
  for (const MeshSize& size : meshes_of(world().size())) {
    INFO("dp " << size.dp << " × tp " << size.tp);
    const auto run = little.run(world(), size);
    run->share.mine = [](const std::vector<int64_t>& samples) {
      std::vector<int64_t> mine;
      for (int64_t i = world().rank(); i < std::ssize(samples); i += world().size()) mine.push_back(samples[i]);
      return mine;
    };
    little.start(*run);
    if (size.tp > 1)
      CHECK_THROWS_WITH(run->trainer->step(), Catch::Contains("the ranks of one tp group read different tokens"));
    else
      CHECK_NOTHROW(run->trainer->step());
    CHECK(run->trainer->steps() == (size.tp == 1));
  }
}
