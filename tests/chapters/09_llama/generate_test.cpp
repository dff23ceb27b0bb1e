// Text from a model: the cache changes nothing, the options mean what they say, and it ends.
#include "chapters/09_llama/generate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

std::unique_ptr<Llama> little_llama(int64_t positions = 32) {
  auto llama = std::make_unique<Llama>(backend(), little_config(positions));
  initialize(*llama, 9);
  return llama;
}

// The logits behind the last of these ids, computed from scratch.
std::vector<float> last_logits(Llama& llama, const Ids& ids) {
  const auto length = static_cast<int64_t>(ids.size());
  const DTensor logits = llama.forward(backend().from_host(ids, {1, length}));
  return backend().to_host(backend().slice(logits.local(), 1, length - 1, 1));
}

int32_t best(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

const GenerateOptions greedy{.tokens = 12, .temperature = 0};

// How often each id comes in so many draws.
std::map<int32_t, double> shares(const std::vector<float>& logits, const GenerateOptions& options,
                                 int64_t draws = 4000) {
  std::map<int32_t, double> shares;
  for (int64_t step = 0; step < draws; ++step)
    shares[sample(logits, options, step)] += 1.0 / static_cast<double>(draws);
  return shares;
}

}  // namespace

TEST_CASE("greedy with a cache is greedy from scratch") {
  const auto llama = little_llama();
  for (const Ids& prompt : {Ids{1}, Ids{1, 17, 4, 60}, random_ids("prompt", 15, 61)}) {
    INFO("a prompt of " << prompt.size());
    Ids whole = prompt, expected;
    llama->set_training(false);
    for (int64_t i = 0; i < greedy.tokens; ++i) {
      expected.push_back(best(last_logits(*llama, whole)));
      whole.push_back(expected.back());
    }
    llama->set_training(true);
    Ids heard;
    const Ids made = generate(*llama, prompt, std::nullopt, greedy, world(), [&](int32_t id) { heard.push_back(id); });
    CHECK(made == expected);
    CHECK(heard == (world().rank() == 0 ? made : Ids{}));
  }
}

TEST_CASE("the prompt, and every new token, are rank 0's") {
  const auto llama = little_llama();
  const GenerateOptions options{.tokens = 9, .temperature = 1.5, .seed = 4};
  const Ids prompt = {1, 5, 9};
  const Ids other = world().rank() == 0 ? prompt : Ids{2};
  const Ids made = generate(*llama, other, std::nullopt, options, world());
  CHECK(made == generate(*llama, prompt, std::nullopt, options, world()));
  CHECK(made.size() == 9);
}

TEST_CASE("generation leaves a model that trains as before") {
  const auto used = little_llama(), fresh = little_llama();
  generate(*used, {1, 2, 3}, std::nullopt, greedy, world());
  CHECK(used->training());
  CHECK_THROWS_AS(generate(*used, {1, 61}, std::nullopt, greedy, world()), Error);  // no such id
  CHECK(used->training());
  CHECK_FALSE(used->context().cache);
  CHECK(used->context().offset == 0);
  const Tensor dy = random("dy", {2, 5, 61});
  const Tensor ids = backend().from_host(random_ids("ids", 10, 61), {2, 5});
  for (const auto* llama : {&used, &fresh}) {
    (*llama)->forward(backend().clone(ids));
    (*llama)->backward(backend().clone(dy));
  }
  const Parameters a = parameters_of(*used), b = parameters_of(*fresh);
  for (size_t i = 0; i < a.size(); ++i) CHECK(differs(a[i]->gradient(), b[i]->gradient()) == "");
}

TEST_CASE("generation ends at the end token, at the number asked for, at the last position") {
  const auto llama = little_llama(10);
  const Ids made = generate(*llama, {1, 17}, std::nullopt, greedy, world());
  CHECK(made.size() == 9);  // positions 2 to 9 are read, and one token comes after the last
  CHECK(generate(*llama, {1, 17}, std::nullopt, {.tokens = 3, .temperature = 0}, world()).size() == 3);
  CHECK(generate(*llama, {1, 17}, std::nullopt, {.tokens = 0}, world()).empty());
  const auto first = std::find(made.begin(), made.end(), made[4]) - made.begin();
  CHECK(generate(*llama, {1, 17}, made[4], greedy, world()) == Ids(made.begin(), made.begin() + first));
  CHECK(generate(*llama, random_ids("full", 10, 61), std::nullopt, greedy, world()).size() == 1);
}

TEST_CASE("an empty prompt, and one past the positions, are refused on every rank") {
  const auto llama = little_llama(10);
  CHECK_THROWS_AS(generate(*llama, {}, std::nullopt, greedy, world()), SharedError);
  CHECK_THROWS_AS(generate(*llama, random_ids("long", 11, 61), std::nullopt, greedy, world()), SharedError);
  const Ids rank0_empty = world().rank() == 0 ? Ids{} : Ids{1};
  CHECK_THROWS_AS(generate(*llama, rank0_empty, std::nullopt, greedy, world()), SharedError);
}

TEST_CASE("sampling: of equals the smallest id, and only ids that the tokenizer knows") {
  CHECK(sample({1, 3, 3, 0}, {.temperature = 0}, 0) == 1);
  CHECK(sample({1, 3, 3, 9}, {.temperature = 0, .vocabulary = 3}, 0) == 1);
  CHECK(sample({1, 3, 3, 9}, {.temperature = 0, .vocabulary = 7}, 0) == 3);
  CHECK(sample({1, 3, 3, 0}, {.temperature = 1, .top_k = 1}, 5) == 1);
  for (const auto& [id, share] : shares({0, 0, 0, 50}, {.temperature = 1, .vocabulary = 3})) {
    CHECK(id < 3);
    CHECK(share == Approx(1.0 / 3).margin(0.04));
  }
}

TEST_CASE("sampling: the shares are the softmax's, by temperature") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  auto at = shares(logits, {.temperature = 1});
  CHECK(at[0] == Approx(0.1).margin(0.03));
  CHECK(at[1] == Approx(0.6).margin(0.03));
  CHECK(at[2] == Approx(0.3).margin(0.03));
  at = shares(logits, {.temperature = 0.5});  // squares: 0.01, 0.36, 0.09 of 0.46
  CHECK(at[1] == Approx(0.7826).margin(0.03));
  CHECK(at[2] == Approx(0.1957).margin(0.03));
}

TEST_CASE("sampling: top-k and top-p keep the front of the order, and share it anew") {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};
  auto at = shares(logits, {.temperature = 1, .top_k = 2});
  CHECK(at.size() == 2);
  CHECK(at[1] == Approx(4.0 / 7).margin(0.03));
  CHECK(at[2] == Approx(3.0 / 7).margin(0.03));
  at = shares(logits, {.temperature = 1, .top_p = 0.75});  // 0.4 and 0.3 are not enough
  CHECK(at.size() == 3);
  CHECK(at[3] == Approx(2.0 / 9).margin(0.03));
  CHECK(shares(logits, {.temperature = 1, .top_p = 0.35}).size() == 1);
  CHECK(shares(logits, {.temperature = 1, .top_k = 3, .top_p = 0.5}).size() == 2);
  CHECK(shares(logits, {.temperature = 1, .top_k = 99}).size() == 4);
}

TEST_CASE("sampling: a seed repeats itself, another does not") {
  const std::vector<float> logits(50, 0.f);
  const auto draws = [&](int64_t seed) {
    Ids ids;
    for (int64_t step = 0; step < 20; ++step) ids.push_back(sample(logits, {.temperature = 1, .seed = seed}, step));
    return ids;
  };
  CHECK(draws(3) == draws(3));
  CHECK(draws(3) != draws(4));
}
