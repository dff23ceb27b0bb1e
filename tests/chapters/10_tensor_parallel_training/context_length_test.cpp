// Case B44 on the whole Llama, cut over the ranks: where its positions end, in training and in writing.
#include "tests/chapters/10_tensor_parallel_training/tensor_parallel.hpp"

#include "chapters/09_llama/generate.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;

namespace {

constexpr int64_t limit = 16;

}  // namespace

TEST_CASE("B44: 16 positions train and write; the 17th is refused on every rank with both numbers") {
  for (const PlanKind plan : all_plans) {
    INFO("plan " << name_of(plan));
    TensorParallel run(world(), little_config(limit), plan);
    initialize(run.llama, 44);

    for (const int64_t S : {limit, limit + 1}) {
      const TokenData data(S, random_ids("stream", 4 * S + 1, 61));
      run.train_on(data, in_order(data.samples(), 2), {.schedule = {1e-3, 1, 4}});
      if (S == limit) {
        CHECK(run.trainer->step().step == 1);
        continue;
      }
      const auto before = values_of(run.llama);
      CHECK_THROWS_AS(run.trainer->step(), SharedError);
      CHECK_THROWS_WITH(run.trainer->step(), Contains("17") && Contains("16"));
      CHECK(run.trainer->steps() == 0);
      const auto after = values_of(run.llama);
      for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
    }

    const auto write = [&](const std::vector<int32_t>& prompt) {
      return generate(run.llama, prompt, std::nullopt, {.tokens = 100, .temperature = 0}, world());
    };
    // A prompt of n leaves positions n to 15 to read, and the token after the last: 17 - n new ones.
    CHECK(std::ssize(write({1})) == limit);
    CHECK(std::ssize(write(random_ids("prompt", 9, 61))) == limit + 1 - 9);
    CHECK(std::ssize(write(random_ids("prompt", limit, 61))) == 1);
    CHECK_THROWS_AS(write(random_ids("prompt", limit + 1, 61)), SharedError);
    CHECK_THROWS_WITH(write(random_ids("prompt", limit + 1, 61)), Contains("17") && Contains("16"));
    CHECK_THROWS_AS(write({}), SharedError);
    CHECK_THROWS_WITH(write({}), Contains("a prompt needs a token"));

    // What was written is what one rank writes, to the last position.
    Llama serial(backend(), little_config(limit));
    const auto alone = world().split(world().rank(), 0, "alone");
    initialize(serial, 44);
    TensorParallel fresh(world(), little_config(limit), plan);
    initialize(fresh.llama, 44);
    const GenerateOptions greedy{.tokens = 100, .temperature = 0};
    CHECK(generate(fresh.llama, {1, 7}, std::nullopt, greedy, world()) ==
          generate(serial, {1, 7}, std::nullopt, greedy, *alone));
  }
}
