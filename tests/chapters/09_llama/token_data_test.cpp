// Samples: where they begin, how many there are, what is held out.
#include "chapters/09_llama/token_data.hpp"

#include <numeric>

#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

TokenData counted(int64_t sequence, int64_t tokens) {
  std::vector<int32_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), 0);
  return TokenData(sequence, std::move(ids));
}

Ids from(int32_t first, int64_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids with_marks(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids = tokenizer.encode(text);
  ids.insert(ids.begin(), *tokenizer.bos());
  ids.push_back(*tokenizer.eos());
  return ids;
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("a stream of n tokens has (n-1)/S samples: the last label must exist") {
  for (const auto& [tokens, samples] :
       {std::pair<int64_t, int64_t>{0, 0}, {1, 0}, {8, 0}, {9, 1}, {16, 1}, {17, 2}, {64, 7}, {65, 8}}) {
    const TokenData data = counted(8, tokens);
    INFO(tokens << " tokens");
    CHECK(data.samples() == samples);
    for (int64_t i = 0; i < samples; ++i) CHECK(data.sample(i) == from(static_cast<int32_t>(8 * i), 9));
    CHECK_THROWS_AS(data.sample(samples), Error);
    CHECK_THROWS_AS(data.sample(-1), Error);
  }
}

TEST_CASE("B29: steps of a token file, B 2, T 8, 4 ranks") {
  const auto b29 = the_case("B29");
  const auto& input = b29.at("input");
  const int64_t global = input.at("B").get<int64_t>() * input.at("ranks").get<int64_t>();
  for (size_t i = 0; i < input.at("tokens").size(); ++i) {
    const auto tokens = input.at("tokens")[i].get<int64_t>();
    const TokenData data = counted(input.at("T").get<int64_t>(), tokens);
    INFO(tokens << " tokens");
    CHECK(data.samples() / global == b29.at("right").at("steps")[i].get<int64_t>());
  }
}

TEST_CASE("stream: documents one after the other, marked, across samples") {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string a = "the river", b = "stones can't";
  const Ids all = joined(with_marks(tokenizer, a), with_marks(tokenizer, b));
  const TokenData data(SampleKind::Stream, 3, tokenizer, {a, b});
  CHECK(data.tokens() == static_cast<int64_t>(all.size()));
  CHECK(data.ignore() == -100);
  CHECK(data.samples() == static_cast<int64_t>(all.size() - 1) / 3);
  for (int64_t i = 0; i < data.samples(); ++i)
    CHECK(data.sample(i) == Ids(all.begin() + 3 * i, all.begin() + 3 * i + 4));
}

TEST_CASE("document: one a sample, filled up or cut") {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string brief = "the", lengthy = "the river can't say it's the llama's river";
  const int64_t S = 6;
  const TokenData data(SampleKind::Document, S, tokenizer, {brief, lengthy, ""});
  const int32_t pad = *tokenizer.pad();
  CHECK(data.ignore() == pad);
  CHECK(data.samples() == 3);
  Ids first = with_marks(tokenizer, brief), second = with_marks(tokenizer, lengthy);
  const auto length = static_cast<int64_t>(first.size());
  CHECK(length < S);
  CHECK(static_cast<int64_t>(second.size()) > S + 1);
  first.resize(S + 1, pad);
  second.resize(S + 1);
  CHECK(data.sample(0) == first);
  CHECK(data.sample(1) == second);

  const Batch batch = make_batch(backend(), data, {1, 0});
  CHECK(backend().to_host<int32_t>(batch.ids) ==
        joined({second.begin(), second.end() - 1}, {first.begin(), first.end() - 1}));
  CHECK(backend().to_host<int32_t>(batch.targets) ==
        joined({second.begin() + 1, second.end()}, {first.begin() + 1, first.end()}));
  Ids attend(S, 1);
  for (int64_t s = 0; s < S; ++s) attend.push_back(s < length);
  CHECK(batch.attend.defined());
  if (batch.attend.defined()) CHECK(backend().to_host<int32_t>(batch.attend) == attend);
  CHECK_FALSE(make_batch(backend(), data, {1}).attend.defined());
}

TEST_CASE("a batch of no samples has no rows") {
  const Batch batch = make_batch(backend(), counted(5, 30), {});
  CHECK(batch.ids.shape() == Shape{0, 5});
  CHECK(batch.targets.shape() == Shape{0, 5});
  CHECK_FALSE(batch.attend.defined());
}

TEST_CASE("the last tenth is held out, and no token is in both but the label at the seam") {
  for (const auto& [tokens, held] : {std::pair<int64_t, int64_t>{801, 10}, {161, 2}, {160, 1}, {24, 1}, {17, 1}}) {
    INFO(tokens << " tokens");
    TokenData train = counted(8, tokens);
    const int64_t all = train.samples();
    const TokenData rest = train.split_off(0.1);
    CHECK(rest.samples() == held);
    CHECK(train.samples() == all - held);
    CHECK(rest.sequence() == 8);
    CHECK(train.sample(train.samples() - 1).back() == 8 * (all - held));
    CHECK(rest.sample(0).front() == 8 * (all - held));
  }
  for (const int64_t tokens : {0, 9, 16}) CHECK_THROWS_AS(counted(8, tokens).split_off(0.1), SharedError);

  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<std::string> documents = {"the", "river", "stones", "can't", "say"};
  TokenData train(SampleKind::Document, 12, tokenizer, documents);
  const TokenData whole(SampleKind::Document, 12, tokenizer, documents);
  const TokenData rest = train.split_off(0.4);
  CHECK(train.samples() == 3);
  CHECK(rest.samples() == 2);
  CHECK(rest.ignore() == whole.ignore());
  for (int64_t i = 0; i < 5; ++i) CHECK((i < 3 ? train.sample(i) : rest.sample(i - 3)) == whole.sample(i));
}

TEST_CASE("rank 0's samples on every rank") {
  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<std::string> documents = {"the river", "stones"};
  const TokenData whole(SampleKind::Document, 9, tokenizer, documents);
  const TokenData data = TokenData::broadcast(
      world().rank() == 0 ? TokenData(SampleKind::Document, 9, tokenizer, documents) : TokenData(), world());
  CHECK(data.samples() == 2);
  CHECK(data.sequence() == 9);
  CHECK(data.ignore() == whole.ignore());
  for (int64_t i = 0; i < 2; ++i) CHECK(data.sample(i) == whole.sample(i));
}

TEST_CASE("a tokenizer without the marks cannot cut samples") {
  CHECK_THROWS_AS(TokenData(SampleKind::Stream, 4, abc_tokenizer(false), {"abc"}), SharedError);
  CHECK_THROWS_AS(sample_kind("paragraph"), UsageError);
}

TEST_CASE("the default sampler: batch after batch, over again, no short batch") {
  const Sampler next = in_order(11, 3);
  using List = std::vector<int64_t>;
  CHECK(next(0) == List{0, 1, 2});
  CHECK(next(2) == List{6, 7, 8});
  CHECK(next(3) == List{0, 1, 2});
  CHECK(next(7) == List{3, 4, 5});
  CHECK(in_order(3, 3)(5) == List{0, 1, 2});
  CHECK_THROWS_AS(in_order(2, 3), SharedError);
}
