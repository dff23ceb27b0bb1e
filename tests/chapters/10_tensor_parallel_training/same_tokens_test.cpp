// Case B28, its last part: ranks of one tp group that read different samples are found before the step.
#include "chapters/10_tensor_parallel_training/same_tokens.hpp"

#include "tests/chapters/10_tensor_parallel_training/tensor_parallel.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;

namespace {

// A run whose ranks read what `next` says, and the words of a step that is refused.
std::string refusal(const TokenData& data, const Sampler& next, int64_t accumulate = 1) {
  TensorParallel run(world(), little_config(), PlanKind::Sequence);
  initialize(run.llama, 28);
  run.train_on(data, next, {.schedule = {1e-3, 1, 4}, .accumulate = accumulate});
  const auto before = values_of(run.llama);
  std::string said;
  try {
    run.trainer->step();
  } catch (const Error& error) {
    said = error.what();
    CHECK(run.trainer->steps() == 0);
    const auto after = values_of(run.llama);
    for (size_t i = 0; i < before.size(); ++i) CHECK(differs(after[i], before[i]) == "");
  }
  return said;
}

}  // namespace

TEST_CASE("B28: a tp group whose ranks read different tokens stops, and says which ranks") {
  using List = std::vector<int64_t>;
  const int64_t rank = world().rank(), ranks = world().size();
  const bool last = ranks > 1 && rank == ranks - 1;
  const TokenData data(7, random_ids("stream", 24 * 7 + 1, 61));
  CHECK(refusal(data, in_order(data.samples(), 6)) == "");
  const auto found = [&](const char* what, const std::string& said, const std::string& others) {
    INFO(what << ": " << said);
    if (ranks == 1)
      CHECK(said == "");
    else
      CHECK_THAT(said, Contains("the ranks of one tp group read different tokens: rank " + others + " of"));
  };
  std::string but_0;
  for (int64_t r = 1; r < ranks; ++r) but_0 += cat(r > 1 ? ", " : "", r);
  found("dealt over the world", refusal(data, [&](int64_t) { return List{rank, rank + ranks}; }), but_0);
  const std::string the_last = std::to_string(ranks - 1);
  found("one rank's order", refusal(data, [&](int64_t) { return last ? List{1, 0} : List{0, 1}; }), the_last);
  found("a later micro-batch",
        refusal(
            data,
            [&](int64_t) {
              return last ? List{0, 2} : List{0, 1};
            },
            2),
        the_last);
  // The labels alone: the stream of one rank has another last token.
  auto ids = random_ids("short", 8, 61);
  if (last) ids.back() = (ids.back() + 1) % 61;
  found("one label", refusal(TokenData(7, ids), in_order(1, 1)), the_last);
}

TEST_CASE("B28: validation compares too") {
  const auto held_of = [](const char* name) { return TokenData(7, random_ids(name, 5 * 7 + 1, 61)); };
  TensorParallel run(world(), little_config(), PlanKind::Basic);
  initialize(run.llama, 28);
  const TokenData data = held_of("held");
  run.train_on(data, in_order(data.samples(), 2), {.schedule = {1e-3, 1, 4}});
  CHECK_NOTHROW(run.trainer->validate(data, 2, 100));
  if (world().size() == 1) return;
  const TokenData mine = held_of(world().rank() == 0 ? "held" : "other");
  CHECK_THROWS_WITH(run.trainer->validate(mine, 2, 100), Contains("read different tokens"));
}
