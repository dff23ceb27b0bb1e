// Checkpoints: any mesh reads what another wrote, bit for bit; damage is found and named; what was complete stays.
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/adamw.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
namespace fs = std::filesystem;

namespace {

// A little Llama with moments that are not zero, cut over the ranks of a group.
struct Trained {
  Trained(Comm& group, uint64_t seed) : mesh(group, backend(), {{"tp", group.size()}}), llama(backend(), little_config()) {
    parallelize_module(llama, mesh, llama_plan(PlanKind::Sequence, little_config().attention(), false));
    initialize(llama, seed);
    optimizer = std::make_unique<AdamW>(parameters_of(llama));
    for (Parameter* p : optimizer->parameters())  // a gradient that every cut sees alike
      backend().add(p->owned_gradient(), p->owned());
    optimizer->step(0.01);
  }
  std::vector<CheckpointTensor> tensors() {
    std::vector<CheckpointTensor> all;
    for (size_t i = 0; i < optimizer->parameters().size(); ++i) {
      Parameter& p = *optimizer->parameters()[i];
      all.push_back({p.name(), p.global(), p.owned_box(), &p.owned(), p.speaks_for(mesh)});
      all.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer->mean(i), p.speaks_for(mesh)});
      all.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer->square(i), p.speaks_for(mesh)});
    }
    return all;
  }
  DeviceMesh mesh;
  Llama llama;
  std::unique_ptr<AdamW> optimizer;
};

// One folder for all ranks, gone at the end.
struct SharedFolder {
  fs::path path = fs::temp_directory_path() / cat("course_checkpoint_", world().size());
  SharedFolder() { remove(); }
  ~SharedFolder() noexcept(false) { remove(); }
  void remove() {
    world().barrier().wait();
    if (world().rank() == 0) fs::remove_all(path);
    world().barrier().wait();
  }
  // Rank 0 does something to the files, the others wait.
  void change(const std::function<void()>& how) {
    world().barrier().wait();
    if (world().rank() == 0) how();
    world().barrier().wait();
  }
};

}  // namespace

TEST_CASE("written on some ranks, read on others: weights and moments bit for bit") {
  SharedFolder folder;
  Trained saved(world(), 5);
  const nlohmann::json state = {{"step", 7}};
  const std::string at = save_checkpoint(folder.path.string(), 7, saved.tensors(), state, world(), backend());
  for (int size = 1; size <= world().size(); ++size) {
    const auto group = world().split(world().rank() / size, 0, "group");
    INFO("groups of " << size << ", this one has " << group->size());
    Trained want(*group, 5), got(*group, 99);
    CHECK(load_checkpoint(at, got.tensors(), *group, backend()) == state);
    const auto a = got.tensors(), b = want.tensors();
    for (size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].name);
      CHECK(differs(*a[i].part, *b[i].part) == "");
    }
  }
}

TEST_CASE("the newest complete one is found, a half-written one is not") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string dir = folder.path.string();
  CHECK_FALSE(newest_checkpoint(dir, world()));
  CHECK_THROWS_WITH(find_checkpoint(dir, world()), Catch::Contains("no such folder"));
  const std::string nine = save_checkpoint(dir, 9, model.tensors(), nlohmann::json::object(), world(), backend());
  const std::string ten = save_checkpoint(dir, 10, model.tensors(), nlohmann::json::object(), world(), backend());
  folder.change([&] {
    fs::create_directories(folder.path / ".step-00000020.writing");
    fs::create_directories(folder.path / "step-00000030");  // without an index
  });
  CHECK(find_checkpoint(dir, world()) == ten);
  CHECK(find_checkpoint(nine, world()) == nine);
}

TEST_CASE("damage is found, the file is named, and every rank is told") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string dir = folder.path.string();
  const std::string good = save_checkpoint(dir, 1, model.tensors(), nlohmann::json::object(), world(), backend());
  const auto refuse = [&](const std::string& name, const std::string& says, const std::function<void(const fs::path&)>& how) {
    INFO(name);
    const fs::path bad = folder.path / name;
    folder.change([&] {
      fs::copy(good, bad);
      how(bad);
    });
    Trained other(world(), 6);
    CHECK_THROWS_WITH(load_checkpoint(bad.string(), other.tensors(), world(), backend()), Catch::Contains(says));
  };
  const char* shard = "rank-0000.safetensors";
  refuse("cut", shard, [&](const fs::path& p) { fs::resize_file(p / shard, fs::file_size(p / shard) - 1); });
  refuse("longer", shard, [&](const fs::path& p) { std::ofstream(p / shard, std::ios::app) << 'x'; });
  refuse("gone", shard, [&](const fs::path& p) { fs::remove(p / shard); });
  refuse("flipped", "is damaged", [&](const fs::path& p) {
    std::fstream file(p / shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-5, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(-5, std::ios::end);
    file.put(byte);
  });
  refuse("index gone", "index.json", [&](const fs::path& p) { fs::remove(p / "index.json"); });
  refuse("index garbage", "index.json", [&](const fs::path& p) { std::ofstream(p / "index.json") << "{\"version\":"; });
  CHECK_NOTHROW(load_checkpoint(good, model.tensors(), world(), backend()));
}

TEST_CASE("another model's tensors are refused with both shapes") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string at = save_checkpoint(folder.path.string(), 1, model.tensors(), nlohmann::json::object(), world(), backend());
  Tensor part = backend().empty({2, 2});
  const Box box = whole_box({2, 2});
  CHECK_THROWS_WITH(load_checkpoint(at, {{"lm_head.weight", {2, 2}, box, &part, true}}, world(), backend()),
                    Catch::Contains("[61,24]") && Catch::Contains("[2,2]"));
  CHECK_THROWS_WITH(load_checkpoint(at, {{"no.such", {2, 2}, box, &part, true}}, world(), backend()), Catch::Contains("no.such"));
}
