#include "chapters/03_device_mesh/draw_mesh.hpp"

#include <algorithm>

#include "common/support/table.hpp"
#include "common/support/terminal.hpp"

namespace course {
namespace {

constexpr int64_t line_width = 96;

std::string blanks(int64_t count) { return std::string(std::max<int64_t>(0, count), ' '); }

std::string right_of(const std::string& text, int64_t width) { return blanks(width - width_of(text)) + text; }

// Lines of text that all fill `width` on the screen. Colours take room in the text but none on the screen.
struct Picture {
  std::vector<std::string> lines;
  int64_t width = 0;
};

// held[r][i] is '1' where rank r holds element i, row-major.
Picture picture_of(const std::string& title, const std::vector<std::string>& held, const Shape& shape,
                   const char* mark) {
  const auto holders = [&](int64_t element) {
    std::vector<int> ranks;
    for (size_t r = 0; r < held.size(); ++r)
      if (held[r][element] == '1') ranks.push_back(static_cast<int>(r));
    return ranks;
  };
  const auto joined = [&](const std::vector<int>& ranks, bool coloured) {
    std::string text;
    for (const int r : ranks) text += (text.empty() ? "" : mark) + (coloured ? in_colour_of(r, cat(r)) : cat(r));
    return text;
  };
  std::string idle;
  for (size_t r = 0; r < held.size(); ++r)
    if (held[r].find('1') == std::string::npos) idle += cat(idle.empty() ? "" : ",", r);
  if (!idle.empty()) idle += " holds none";

  int64_t cell = 1;
  for (int64_t i = 0; i < numel(shape); ++i) cell = std::max(cell, width_of(joined(holders(i), false)));
  const int64_t row = shape[1] * (cell + 1) - 1;
  Picture picture{{}, std::max({row, width_of(title), width_of(idle)})};
  picture.lines.push_back(title + blanks(picture.width - width_of(title)));
  for (int64_t i = 0; i < shape[0]; ++i) {
    std::string line;
    for (int64_t j = 0; j < shape[1]; ++j) {
      const auto ranks = holders(i * shape[1] + j);
      line += (j ? " " : "") + joined(ranks, true) + blanks(cell - width_of(joined(ranks, false)));
    }
    picture.lines.push_back(line + blanks(picture.width - row));
  }
  picture.lines.push_back(idle + blanks(picture.width - width_of(idle)));
  return picture;
}

// Pictures of equal height in as many bands as they need.
std::string side_by_side(const std::vector<Picture>& pictures) {
  std::string text;
  for (size_t first = 0; first < pictures.size();) {
    size_t end = first;
    for (int64_t width = 0; end < pictures.size(); ++end) {
      width += 3 + pictures[end].width;
      if (end > first && width > line_width) break;
    }
    for (size_t i = 0; i < pictures[first].lines.size(); ++i) {
      std::string line;
      for (size_t at = first; at < end; ++at) line += (at > first ? "   " : "") + pictures[at].lines[i];
      const size_t last = line.find_last_not_of(' ');
      if (last != std::string::npos) text += "  " + line.substr(0, last + 1) + "\n";
    }
    text += "\n";
    first = end;
  }
  return text;
}

}  // namespace

void draw_mesh(Session& session, const DeviceMesh& mesh) {
  require_shared(mesh.dims() <= 2, "a mesh of ", mesh.dims(), " axes cannot be drawn on paper");
  const int64_t inner = mesh.dims() - 1, rows = mesh.dims() == 2 ? mesh.size(0) : 1, columns = mesh.size(inner);
  const int64_t row = mesh.dims() == 2 ? mesh.coordinate(0) : 0, column = mesh.coordinate(inner);

  std::vector<int> rank_at(rows * columns, -1);
  const auto places = session.world().all_gather_text(cat(row * columns + column));
  for (size_t r = 0; r < places.size(); ++r) rank_at[std::stoll(places[r])] = static_cast<int>(r);

  std::vector<std::vector<std::string>> groups;  // by axis, each group once, in the order of its lowest rank
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
    std::string mine;
    for (const auto& member : mesh.comm(axis).all_gather_text(cat(session.rank())))
      mine += (mine.empty() ? "" : " ") + member;
    auto& seen = groups.emplace_back();
    for (const auto& group : session.world().all_gather_text(mine))
      if (std::find(seen.begin(), seen.end(), group) == seen.end()) seen.push_back(group);
  }

  const auto head = [&](int64_t axis, int64_t i) { return cat(mesh.name(axis), " ", i); };
  const int64_t left = mesh.dims() == 2 ? width_of(head(0, rows - 1)) : 0;
  const int64_t cell = width_of(head(inner, columns - 1)) + 2;
  std::ostream& out = session.out();
  out << mesh.show() << "\n  " << blanks(left);
  for (int64_t j = 0; j < columns; ++j) out << right_of(head(inner, j), cell);
  out << "\n";
  for (int64_t i = 0; i < rows; ++i) {
    out << "  " << (mesh.dims() == 2 ? right_of(head(0, i), left) : "");
    for (int64_t j = 0; j < columns; ++j) {
      const int r = rank_at[i * columns + j];
      out << blanks(cell - width_of(cat(r))) << in_colour_of(r, cat(r));
    }
    out << "\n";
  }
  for (int64_t axis = 0; axis < mesh.dims(); ++axis) {
    out << "  " << mesh.name(axis) << (groups[axis].size() == 1 ? " group: " : " groups: ");
    for (size_t i = 0; i < groups[axis].size(); ++i) out << (i ? " | " : "") << groups[axis][i];
    out << "\n";
  }
  out << "\n";
}

void draw_holders(Session& session, const DeviceMesh& mesh, const Shape& shape,
                  const std::vector<Placements>& layouts) {
  std::vector<Picture> pictures;
  for (const auto& placements : layouts) {
    const Box box = local_box(mesh, placements, shape);
    std::string mine(numel(shape), '0');
    for (int64_t i = box.offset[0]; i < box.offset[0] + box.size[0]; ++i)
      for (int64_t j = box.offset[1]; j < box.offset[1] + box.size[1]; ++j) mine[i * shape[1] + j] = '1';
    const bool terms = std::any_of(placements.begin(), placements.end(), is_partial);
    pictures.push_back(picture_of(mesh.dims() == 1 ? show(placements[0]) : show(placements),
                                  session.world().all_gather_text(mine), shape, terms ? "+" : ","));
  }
  session.out() << side_by_side(pictures);
}

}  // namespace course
