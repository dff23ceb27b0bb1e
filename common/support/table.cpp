#include "common/support/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace course {
namespace {

constexpr const char* kRule = "|";

std::string padded(const std::string& text, int64_t width, bool right) {
  const std::string blanks(static_cast<size_t>(std::max<int64_t>(0, width - width_of(text))), ' ');
  return right ? blanks + text : text + blanks;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

int64_t width_of(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool reads_as_number(const std::string& cell) {
  size_t i = 0;
  if (i < cell.size() && (cell[i] == '-' || cell[i] == '+')) ++i;
  const std::string rest = cell.substr(i);
  if (rest == "inf" || rest == "nan") return true;
  if (i == cell.size() || !digit(cell[i])) return false;
  while (i < cell.size() && (digit(cell[i]) || cell[i] == '.' || cell[i] == ',')) ++i;
  if (i + 1 < cell.size() && cell[i] == 'e') {
    size_t exponent = i + 1;
    if (cell[exponent] == '-' || cell[exponent] == '+') ++exponent;
    if (exponent < cell.size() && digit(cell[exponent])) {
      while (exponent < cell.size() && digit(cell[exponent])) ++exponent;
      i = exponent;
    }
  }
  const std::string unit = cell.substr(i);
  if (unit.empty() || unit == "%" || unit == "x" || unit == "×") return true;
  return unit[0] == ' ' && unit.size() > 1 &&
         std::none_of(unit.begin() + 1, unit.end(), [](char c) { return c == ' ' || digit(c); });
}

Table::Table(std::vector<std::string> header) : header_(std::move(header)) {}

Table& Table::add(std::vector<std::string> cells) {
  const auto rules = static_cast<size_t>(std::count(header_.begin(), header_.end(), kRule));
  require(cells.size() + rules == header_.size(), "a row of ", cells.size(), " cells in a table of ",
          header_.size() - rules, " columns");
  for (size_t c = 0; c < header_.size(); ++c) {
    if (header_[c] == kRule) cells.insert(cells.begin() + static_cast<std::ptrdiff_t>(c), kRule);
  }
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::str() const {
  const size_t columns = header_.size();
  std::vector<int64_t> width(columns);
  std::vector<bool> numbers(columns, !rows_.empty());
  for (size_t c = 0; c < columns; ++c) {
    width[c] = width_of(header_[c]);
    for (const auto& row : rows_) {
      width[c] = std::max(width[c], width_of(row[c]));
      if (!reads_as_number(row[c])) numbers[c] = false;
    }
  }

  // One blank stands beside a rule, two between other columns.
  const auto line = [&](const auto& cell, const char* rule, const std::string& blank) {
    std::string text;
    for (size_t c = 0; c < columns; ++c) {
      const bool is_rule = header_[c] == kRule;
      if (c > 0) text += is_rule || header_[c - 1] == kRule ? blank : blank + blank;
      text += is_rule ? rule : cell(c);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  const auto dashes = [&](size_t c) {
    std::string text;
    for (int64_t i = 0; i < width[c]; ++i) text += "─";
    return text;
  };

  std::string text = line([&](size_t c) { return padded(header_[c], width[c], numbers[c]); }, "│", " ");
  text += line(dashes, "┼", "─");
  for (const auto& row : rows_) {
    text += line([&](size_t c) { return padded(row[c], width[c], reads_as_number(row[c])); }, "│", " ");
  }
  return text;
}

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) return cat(bytes, " B");
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1023.995 && unit + 1 < std::size(kUnits)) {  // 1023.995 would print as 1024.00
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

std::string group_digits(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

}  // namespace course
