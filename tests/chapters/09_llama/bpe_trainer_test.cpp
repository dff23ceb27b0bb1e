// Training by hand: texts small enough to count pairs with a pencil. The library's own merges: tokenizer_test.cpp,
// [golden].
#include "chapters/09_llama/bpe_trainer.hpp"

#include <algorithm>

#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

using Texts = std::vector<std::string>;

// The tokens that were learned, in order, from a text without special tokens.
Texts learned(const Texts& documents, int how_many) {
  const Tokenizer tokenizer = train_bpe(documents, 256 + how_many, {});
  return {tokenizer.data().tokens.begin() + 256, tokenizer.data().tokens.end()};
}

}  // namespace

TEST_CASE("the most frequent pair first, of equals the smallest ids") {
  CHECK(learned({"ab ab cd"}, 2) == Texts{"ab", "cd"});  // (a, b) twice; then once each (c, d) < (Ġ, c) < (Ġ, ab)
  CHECK(learned({"dc ba"}, 1) == Texts{"ba"});           // once each: (b, a) < (d, c) < (Ġ, b)
  CHECK(learned({"ac ab"}, 2) == Texts{"ab", "ac"});     // once each: (a, b) < (a, c) < (Ġ, a)
}

TEST_CASE("a pair is counted at overlapping places and merged from the left") {
  CHECK(learned({"aaa.bc bc"}, 1) == Texts{"aa"});  // aa twice, bc twice: (a, a) is smaller
  CHECK(train_bpe(Texts{"aaaaa"}, 257, {}).encode("aaaaa") == Ids{256, 256, 64});
}

TEST_CASE("training ends when no pair is left") {
  const Tokenizer tokenizer = train_bpe(Texts{"abc", "", "d"}, 1000);
  CHECK(tokenizer.size() == 3 + 256 + 2);
  CHECK(train_bpe(Texts{}, 1000).size() == 259);
  CHECK(train_bpe(Texts{"abc"}, 259).size() == 259);
}

TEST_CASE("words do not cross documents, and a special token's text is text") {
  CHECK(learned({"a", "b"}, 5).empty());
  const Tokenizer tokenizer = train_bpe(Texts{"[EOT][EOT]"}, 262);
  CHECK(tokenizer.encode("[EOT") == Ids{*tokenizer.id("["), *tokenizer.id("EOT")});
  CHECK(tokenizer.encode("[EOT]") == Ids{1});
}

TEST_CASE("two ways to one token give it one id") {
  const Tokenizer tokenizer = train_bpe(Texts{"abc abc xab xab bcy bcy"}, 300, {});
  for (std::int32_t i = 0; i < tokenizer.size(); ++i) CHECK(tokenizer.id(tokenizer.token(i)) == i);
}

TEST_CASE("what cannot be trained is refused") {
  CHECK_THROWS_WITH(train_bpe(Texts{"a"}, 258), "a vocabulary of 258 has no room for 3 special tokens and 256 bytes");
  CHECK_THROWS_WITH(train_bpe(Texts{"a"}, 300, {"[A]", "[A]"}), Catch::Contains("\"[A]\" is given twice"));
  CHECK_THROWS_WITH(train_bpe(Texts{"a"}, 300, {""}), Catch::Contains("empty"));
  CHECK_THROWS_WITH(train_bpe(Texts{"a"}, 300, {"a"}), Catch::Contains("spelling of a byte"));
  CHECK_THROWS_WITH(train_bpe(Texts{"a"}, 300, {"\xFF"}), Catch::Contains("not UTF-8"));
}

TEST_CASE("progress is told, from nothing learned to the end") {
  std::vector<int> heard;
  int wanted = 0;
  train_bpe(Texts{"the river", "the stone"}, 270, {}, [&](int done, int total) {
    heard.push_back(done);
    wanted = total;
  });
  CHECK(wanted == 14);
  REQUIRE(heard.size() > 2);
  CHECK(heard.front() == 0);
  CHECK(std::is_sorted(heard.begin(), heard.end()));
  CHECK(heard.back() == train_bpe(Texts{"the river", "the stone"}, 270, {}).size() - 256);
}
