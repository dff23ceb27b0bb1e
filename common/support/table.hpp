// A small table for a terminal.
//
//   Table table({"call", "calls", "bytes", "|", "calls", "bytes"});
//   table.row("all-reduce", 2, group_digits(4096), 2, group_digits(4096));
//   std::cout << table.str();
//
//   call        calls  bytes │ calls  bytes
//   ─────────────────────────┼─────────────
//   all-reduce      2  4,096 │     2  4,096
//
// Widths are counted in code points, so names with accents and arrows line up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/check.hpp"

namespace course {

class Table {
 public:
  // A column named "|" is a rule from top to bottom; rows have no cell for it.
  explicit Table(std::vector<std::string> header);

  // Throws when the cells are not as many as the columns. A cell that reads as a number ("1,024", "-0.5", "1.50 MiB",
  // "12%") stands at the right of its column; so does the head of a column of nothing else.
  Table& add(std::vector<std::string> cells);

  // The same from anything that prints.
  template <typename... Cells>
  Table& row(const Cells&... cells) {
    return add({cat(cells)...});
  }

  // Header, rule, rows: each line ends in \n and has no blanks at its end.
  std::string str() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;  // rules included, as "|"
};

std::string human_bytes(int64_t bytes);         // "512 B", "1.50 MiB"
std::string group_digits(int64_t number);       // "1,234,567"
int64_t width_of(const std::string& text);      // code points of UTF-8
bool reads_as_number(const std::string& cell);  // the table's own question

}  // namespace course
