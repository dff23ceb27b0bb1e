#include "common/support/table.hpp"

#include <limits>

#include "tests/support/catch.hpp"

using namespace course;

TEST_CASE("a table lines up: text left, numbers right, a rule between") {
  Table table({"call", "calls", "bytes", "|", "calls", "bytes"});
  table.row("all-reduce", 2, group_digits(1024), 2, group_digits(1024));
  table.row("gather → q", 12, human_bytes(1536), 12, human_bytes(1536));
  CHECK(table.str() ==
        "call        calls     bytes │ calls     bytes\n"
        "────────────────────────────┼────────────────\n"
        "all-reduce      2     1,024 │     2     1,024\n"
        "gather → q     12  1.50 KiB │    12  1.50 KiB\n");
}

TEST_CASE("a column with words keeps its numbers right and its head left, and no line ends in blanks") {
  Table table({"what", "where"});
  table.row("é", "none").row("naïve", 7).row("z", "");
  CHECK(table.str() ==
        "what   where\n"
        "────────────\n"
        "é      none\n"
        "naïve      7\n"
        "z\n");
}

TEST_CASE("a table without rows is its header, and a row must fit") {
  Table table({"a", "|", "b"});
  CHECK(table.str() == "a │ b\n──┼──\n");
  CHECK_THROWS_WITH(table.row(1), Catch::Matchers::Contains("1 cells") && Catch::Matchers::Contains("2 columns"));
  CHECK_THROWS(table.row(1, 2, 3));
}

TEST_CASE("what reads as a number") {
  for (const char* yes :
       {"0", "-1", "+2.5", "1,234", "1e-05", "2.5e9 B/s", "1.50 MiB", "12%", "0.6x", "3×", "12 µs", "nan", "-inf"}) {
    INFO(yes);
    CHECK(reads_as_number(yes));
  }
  for (const char* no : {"", "-", "a", "2x3", "7 → 3", "01_column", "0:01:23", "3 of 4", "e5", "1e", "1 "}) {
    INFO(no);
    CHECK(!reads_as_number(no));
  }
}

TEST_CASE("bytes for people") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(512) == "512 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(1536 * 1024) == "1.50 MiB");
  CHECK(human_bytes(1024 * 1024 - 1) == "1.00 MiB");
  CHECK(human_bytes(-2048) == "-2.00 KiB");
  CHECK(human_bytes(std::numeric_limits<int64_t>::max()) == "8.00 EiB");
}

TEST_CASE("digits in groups") {
  CHECK(group_digits(0) == "0");
  CHECK(group_digits(999) == "999");
  CHECK(group_digits(1000) == "1,000");
  CHECK(group_digits(1234567) == "1,234,567");
  CHECK(group_digits(-100) == "-100");
  CHECK(group_digits(-123456) == "-123,456");
  CHECK(group_digits(std::numeric_limits<int64_t>::min()) == "-9,223,372,036,854,775,808");
}
