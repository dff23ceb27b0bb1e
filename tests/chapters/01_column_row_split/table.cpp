#include "chapters/01_column_row_split/draw.hpp"
#include "chapters/01_column_row_split/sent_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {

TEST_CASE("the table says what was sent and what the formula says") {
  SentTable sent;
  sent.add("row split", {2, 1234.0, 0.5}, 2, 1234);
  sent.add("by three", {1, 200.0 / 3, 0.5}, 1, 200.0 / 3);
  const std::string text = sent.str();
  CHECK_THAT(text, Catch::Matchers::Contains("row split"));
  CHECK_THAT(text, Catch::Matchers::Contains("1,234"));
  CHECK_THAT(text, Catch::Matchers::Contains("66.7"));
  CHECK_NOTHROW(sent.check(world()));
}

TEST_CASE("one rank that sent something else fails all") {
  const int last = world().size() - 1;
  for (const bool in_calls : {true, false}) {
    SentTable sent;
    sent.add("right", {1, 8, 0}, 1, 8);
    const bool wrong = world().rank() == last;
    sent.add("wrong", {1, 16, 0}, wrong && in_calls ? 2 : 1, wrong && !in_calls ? 24 : 16);
    std::string said;
    try {
      sent.check(world());
    } catch (const SharedError& error) {
      said = error.what();
    }
    CHECK_THAT(said, Catch::Matchers::Contains("wrong: sent 1 calls, 16 bytes; the formula says"));
    CHECK_THAT(said, Catch::Matchers::Contains(in_calls ? "2 calls, 16 bytes" : "1 calls, 24 bytes"));
  }
}

TEST_CASE("bytes as text") {
  CHECK(show_bytes(0) == "0");
  CHECK(show_bytes(1234567) == "1,234,567");
  CHECK(show_bytes(200.0 / 3) == "66.7");
  CHECK(show_bytes(3 * (1.0 / 3) * 72) == "72");
}

TEST_CASE("a matrix as lines") {
  const Tensor x = make({2, 3}, [](int64_t i) { return float(i * i) - 1; });
  CHECK(lines_of(backend(), x) == std::vector<std::string>{"-1  0  3", " 8 15 24"});
  CHECK(lines_of(backend(), x, 2) == std::vector<std::string>{"[2,3]"});
  CHECK(lines_of(backend(), backend().empty({4, 0})) == std::vector<std::string>{"idle"});
}

}  // namespace course::test
