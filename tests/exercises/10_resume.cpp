// A checkpoint of these ranks, read in other cuts: the same, by columns, for another number of ranks, whole; and one that is damaged.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"
#include "tests/exercises/not_written.hpp"

using namespace course;
namespace fs = std::filesystem;

namespace {

// One folder for all ranks, gone when this ends. Unlike the tests' SharedFolder it waits for nobody then: a learner's error may
// be one rank's.
class Folder {
 public:
  explicit Folder(Comm& world) : first_(world.rank() == 0) {
    std::string name = (fs::temp_directory_path() / "course-resume-XXXXXX").string();
    if (first_) require(mkdtemp(name.data()), name, ": cannot be made");
    name_ = world.broadcast_text(name, 0);
  }
  ~Folder() {
    std::error_code ignored;
    if (first_) fs::remove_all(name_, ignored);
  }
  const std::string& name() const { return name_; }

 private:
  bool first_;
  std::string name_;
};

Box part(const Shape& global, int64_t dim, int64_t ranks, int64_t rank) {
  const Chunk piece = chunk(global[dim], ranks, rank);
  return cut(whole_box(global), dim, piece.offset, piece.size);
}

Tensor of_box(Backend& backend, const Tensor& whole, const Box& box) {
  return backend.slice(backend.slice(whole, 0, box.offset[0], box.size[0]), 1, box.offset[1], box.size[1]);
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "resume", [](Check& check) {
    Backend& backend = check.backend();
    const Folder folder(check.world());
    const int P = check.size(), rank = check.rank();
    const Shape shape = {check.random("rows", 7, 11), check.random("columns", 6, 9)};
    const Tensor rows = check.random("by rows", shape), columns = check.random("by columns", shape);
    const Box by_rows = part(shape, 0, P, rank), by_columns = part(shape, 1, P, rank);
    Tensor row_part = of_box(backend, rows, by_rows), column_part = of_box(backend, columns, by_columns);
    const std::string saved = save_checkpoint(folder.name(), 1, {{"rows", shape, by_rows, &row_part, true},
                                                                 {"columns", shape, by_columns, &column_part, true}},
                                              {{"steps", 1}}, check.world(), backend);
    // What load_checkpoint says where it refuses, without the folder's name.
    const auto load = [&](const std::vector<CheckpointTensor>& tensors) -> std::string {
      try {
        load_checkpoint(saved, tensors, check.world(), backend);
        return "loaded";
      } catch (const SharedError& error) {
        std::string words = error.what();
        for (size_t at; (at = words.find(saved)) != std::string::npos;) words.erase(at, saved.size());
        if (words.ends_with(kNotWritten)) throw;
        return words;
      }
    };
    const auto reads = [&](const std::string& what, const Box& of_rows, const Box& of_columns) {
      check.begin(cat("saved by ", P, P > 1 ? " ranks" : " rank", ", read ", what, "; [", shape[0], ",", shape[1], "]"));
      Tensor a, b;
      check.equal("load_checkpoint", load({{"rows", shape, of_rows, &a, true}, {"columns", shape, of_columns, &b, true}}), "loaded");
      check.equal("what was cut by rows", a, of_box(backend, rows, of_rows), 0);
      check.equal("what was cut by columns", b, of_box(backend, columns, of_columns), 0);
    };
    reads("in the same parts", by_rows, by_columns);
    reads("cut the other way", by_columns, by_rows);
    for (int64_t ranks = 1; ranks <= 5; ++ranks)
      reads(cat("as by ", ranks, ranks > 1 ? " ranks" : " rank"), part(shape, 0, ranks, rank % ranks), part(shape, 1, ranks, rank % ranks));

    check.begin("a file with one bit changed");
    if (rank == 0) {
      const fs::path file = fs::path(saved) / "rank-0000.safetensors";
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(-1, std::ios::end);
      const char last = static_cast<char>(bytes.get() ^ 1);
      bytes.seekp(-1, std::ios::end);
      bytes.put(last);
    }
    check.world().barrier().wait();
    Tensor a, b;
    const std::string said =
        load({{"rows", shape, whole_box(shape), &a, true}, {"columns", shape, whole_box(shape), &b, true}});
    check.equal("load_checkpoint", said == "loaded" ? "loaded" : "refused", "refused");
  });
}
