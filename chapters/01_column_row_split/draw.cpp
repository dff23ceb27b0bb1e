#include "chapters/01_column_row_split/draw.hpp"

#include <algorithm>
#include <iomanip>

#include "common/support/table.hpp"
#include "common/support/terminal.hpp"

namespace course {
namespace {

std::string padded(const std::string& text, int64_t width) {
  return text + std::string(std::max<int64_t>(0, width - width_of(text)), ' ');
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Several blocks of lines side by side. A line has no blanks at its end.
std::string side_by_side(const std::vector<std::vector<std::string>>& blocks, const std::string& between) {
  size_t height = 0;
  for (const auto& block : blocks) height = std::max(height, block.size());
  std::string text;
  for (size_t i = 0; i <= height; ++i) {
    std::string line;
    for (int r = 0; r < static_cast<int>(blocks.size()); ++r) {
      const std::string head = cat("rank ", r);
      int64_t width = width_of(head);
      for (const auto& cell : blocks[r]) width = std::max(width, width_of(cell));
      const std::string cell = i == 0 ? head : i <= blocks[r].size() ? blocks[r][i - 1] : "";
      line += (r ? between : "") + in_colour_of(r, padded(cell, width));
    }
    text += "  " + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string stacked(const std::vector<std::vector<std::string>>& blocks) {
  std::string text;
  for (int r = 0; r < static_cast<int>(blocks.size()); ++r)
    for (size_t i = 0; i < blocks[r].size(); ++i)
      text += "  " + padded(i == 0 ? cat("rank ", r) : "", 8) + in_colour_of(r, blocks[r][i]) + "\n";
  return text;
}

}  // namespace

std::vector<std::string> lines_of(const Backend& backend, const Tensor& x, int64_t most) {
  const int64_t M = x.dim(0), N = x.dim(1);
  if (x.numel() == 0) return {"idle"};
  if (M > most || N > most) return {show(x.shape())};
  const auto values = backend.to_host(x);
  int width = 1;
  for (const float value : values) width = std::max(width, static_cast<int>(cat(value).size()));
  std::vector<std::string> lines;
  for (int64_t i = 0; i < M; ++i) {
    std::ostringstream line;
    for (int64_t j = 0; j < N; ++j) line << (j ? " " : "") << std::setw(width) << values[i * N + j];
    lines.push_back(line.str());
  }
  return lines;
}

void draw(Session& session, const std::string& title, const Tensor& mine, Pieces pieces) {
  std::string text;
  for (const auto& line : lines_of(session.backend(), mine)) text += line + "\n";
  std::vector<std::vector<std::string>> blocks;
  for (const auto& drawn : session.world().all_gather_text(text)) blocks.push_back(split_lines(drawn));
  session.out() << title << "\n"
                << (pieces == Pieces::Rows ? stacked(blocks)
                                           : side_by_side(blocks, pieces == Pieces::Columns ? " | " : " + "))
                << "\n";
}

void draw(Session& session, const std::string& title, const Tensor& whole) {
  session.out() << title << "\n";
  for (const auto& line : lines_of(session.backend(), whole)) session.out() << "  " << line << "\n";
  session.out() << "\n";
}

}  // namespace course
