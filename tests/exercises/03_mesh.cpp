// Coordinates and groups of a mesh, against the ranks numbered row by row.
#include "chapters/03_device_mesh/device_mesh.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

namespace {

// Every mesh of one to three axes for so many ranks.
std::vector<std::vector<int64_t>> all_meshes(int64_t ranks) {
  std::vector<std::vector<int64_t>> found = {{ranks}};
  for (int64_t a = 1; a <= ranks; ++a) {
    if (ranks % a > 0) continue;
    found.push_back({a, ranks / a});
    for (int64_t b = 1; b <= ranks / a; ++b)
      if (ranks / a % b == 0) found.push_back({a, b, ranks / a / b});
  }
  return found;
}

std::string words(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t n : numbers) text += cat(text.empty() ? "" : " ", n);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "mesh", [](Check& check) {
    const char* names[] = {"pp", "dp", "tp"};
    for (const auto& sizes : all_meshes(check.size())) {
      // The coordinates of every rank, counted up like the digits of a number.
      std::vector<std::vector<int64_t>> at = {std::vector<int64_t>(sizes.size(), 0)};
      for (int r = 1; r < check.size(); ++r) {
        at.push_back(at.back());
        for (size_t a = sizes.size(); a-- > 0 && ++at[r][a] == sizes[a];) at[r][a] = 0;
      }
      std::vector<MeshAxis> axes;
      for (size_t a = 0; a < sizes.size(); ++a) axes.push_back({names[a], sizes[a]});
      check.begin(cat("a mesh of ", words(sizes)));
      const DeviceMesh mesh(check.world(), check.backend(), axes);
      check.equal("axes", static_cast<double>(mesh.dims()), static_cast<double>(sizes.size()));
      for (size_t a = 0; a < sizes.size(); ++a) {
        const auto axis = static_cast<int64_t>(a);
        std::vector<int64_t> group;
        for (int r = 0; r < check.size(); ++r) {
          auto of_rank = at[r];
          of_rank[a] = at[check.rank()][a];
          if (of_rank == at[check.rank()]) group.push_back(r);
        }
        check.equal(cat("name of axis ", a), mesh.name(axis), names[a]);
        check.equal(cat("size of ", names[a]), static_cast<double>(mesh.size(axis)), static_cast<double>(sizes[a]));
        check.equal(cat("coordinate on ", names[a]), static_cast<double>(mesh.coordinate(axis)),
                    static_cast<double>(at[check.rank()][a]));
        check.equal(cat("ranks in the group of ", names[a]), static_cast<double>(mesh.comm(axis).size()),
                    static_cast<double>(sizes[a]));
        std::string members;
        for (const auto& rank : mesh.comm(axis).all_gather_text(cat(check.rank()))) members += cat(members.empty() ? "" : " ", rank);
        check.equal(cat("the group of ", names[a], ", in order"), members, words(group));
      }
    }
  });
}
