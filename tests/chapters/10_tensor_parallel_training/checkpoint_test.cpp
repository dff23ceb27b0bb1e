// Checkpoints: any mesh reads what another wrote, bit for bit; damage is found and named; what was complete stays.
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/05_sharded_mlp/mlp.hpp"
#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/adamw.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"
#include "tests/support/shared_folder.hpp"

using namespace course;
using namespace course::test;
namespace fs = std::filesystem;

namespace {

// A little Llama with moments that are not zero, cut over the ranks of a group.
struct Trained {
  Trained(Comm& group, uint64_t seed)
      : mesh(group, backend(), {{"tp", group.size()}}), llama(backend(), little_config()) {
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
      all.push_back({p.name(), p.global(), p.owned_box(), &p.owned_to_write(), p.speaks_for(mesh)});
      all.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer->mean(i), p.speaks_for(mesh)});
      all.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer->square(i), p.speaks_for(mesh)});
    }
    return all;
  }
  DeviceMesh mesh;
  Llama llama;
  std::unique_ptr<AdamW> optimizer;
};

}  // namespace

TEST_CASE("written on some ranks, read on others: weights and moments bit for bit") {
  SharedFolder folder;
  Trained saved(world(), 5);
  const nlohmann::json state = {{"step", 7}};
  const std::string at = save_checkpoint(folder.path, 7, saved.tensors(), state, world(), backend());
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
  const std::string dir = folder.path;
  CHECK_FALSE(newest_checkpoint(dir, world()));
  CHECK_THROWS_WITH(find_checkpoint(dir, world()), Catch::Contains("no such folder"));
  const std::string nine = save_checkpoint(dir, 9, model.tensors(), nlohmann::json::object(), world(), backend());
  const std::string ten = save_checkpoint(dir, 10, model.tensors(), nlohmann::json::object(), world(), backend());
  folder.change([&] {
    fs::create_directories(folder.path / ".step-00000020.writing");
    fs::copy(ten, folder.path / ".step-00000021.writing");  // killed just before the rename
    fs::create_directories(folder.path / "step-00000030");  // without an index
    fs::copy(ten, folder.path / "step-00000010.bak");       // somebody's copy: none of ours
    fs::copy(ten, folder.path / "step-9");
    std::ofstream(folder.path / "step-00000099") << "a file";
  });
  CHECK(find_checkpoint(dir, world()) == ten);
  CHECK(find_checkpoint(nine, world()) == nine);
  CHECK_THROWS_WITH(find_checkpoint(dir + "/step-00000030", world()), Catch::Contains("holds no complete checkpoint"));
  CHECK_NOTHROW(load_checkpoint(nine, model.tensors(), world(), backend()));  // the older one stays loadable
}

TEST_CASE("a step saved again takes the place of the old one, and leaves nothing beside it") {
  SharedFolder folder;
  Trained before(world(), 5), after(world(), 6), got(world(), 7);
  const std::string dir = folder.path;
  save_checkpoint(dir, 3, before.tensors(), {{"try", 1}}, world(), backend());
  const std::string at = save_checkpoint(dir, 3, after.tensors(), {{"try", 2}}, world(), backend());
  CHECK(load_checkpoint(at, got.tensors(), world(), backend()) == nlohmann::json{{"try", 2}});
  const auto a = got.tensors(), b = after.tensors();
  for (size_t i = 0; i < a.size(); ++i) CHECK(differs(*a[i].part, *b[i].part) == "");
  CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
}

TEST_CASE("a write that fails on one rank is told on all, and leaves what was there and nothing else") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string dir = folder.path;
  const int last = world().size() - 1;
  const std::string good = save_checkpoint(dir, 1, model.tensors(), {{"try", 1}}, world(), backend());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  for (const int64_t step : {1, 2}) {  // in the place of the one that is there, and beside it
    const rlimit small{4096, before.rlim_max};
    if (world().rank() == last) setrlimit(RLIMIT_FSIZE, &small);
    CHECK_THROWS_WITH(save_checkpoint(dir, step, model.tensors(), {{"try", 2}}, world(), backend()),
                      Catch::Contains(cat("step-0000000", step, " is not saved: ",
                                          world().size() > 1 ? cat("rank ", last, ": ") : "")) &&
                          Catch::Contains("File too large"));
    setrlimit(RLIMIT_FSIZE, &before);
    if (world().rank() == 0) CHECK(std::distance(fs::directory_iterator(dir), fs::directory_iterator()) == 1);
    Trained got(world(), 6);
    CHECK(load_checkpoint(good, got.tensors(), world(), backend()) == nlohmann::json{{"try", 1}});
    world().barrier().wait();
  }
}

TEST_CASE("what killed runs left is taken away, what was about to be replaced comes back") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string dir = folder.path;
  const std::string three = save_checkpoint(dir, 3, model.tensors(), nlohmann::json::object(), world(), backend());
  folder.change([&] {
    fs::copy(three, folder.path / ".step-00000002.replaced");  // its successor had not got the name yet
    fs::copy(three, folder.path / ".step-00000003.replaced");
    fs::copy(three, folder.path / ".step-00000003.writing");
    fs::create_directories(folder.path / ".step-00000004.writing");
    fs::create_directories(folder.path / ".step-00000004.mine");  // none of ours
    std::ofstream(folder.path / "notes.txt") << "kept";
    tidy_checkpoints(dir);
  });
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(dir)) left.insert(entry.path().filename().string());
  CHECK(left == std::set<std::string>{".step-00000004.mine", "notes.txt", "step-00000002", "step-00000003"});
  CHECK_NOTHROW(load_checkpoint(dir + "/step-00000002", model.tensors(), world(), backend()));
}

TEST_CASE("a checkpoint that was about to be replaced is found and read before tidying, and after it by the same path") {
  SharedFolder folder;
  const std::string dir = folder.path.string();
  Trained model(world(), 5);
  save_checkpoint(dir, 2, model.tensors(), {{"step", 2}}, world(), backend());
  const std::string three = save_checkpoint(dir, 3, model.tensors(), {{"step", 3}}, world(), backend());
  folder.change([&] { fs::rename(three, folder.path / ".step-00000003.replaced"); });
  const std::string found = find_checkpoint(dir, world());
  CHECK(found == three);
  CHECK(find_checkpoint(three, world()) == three);
  CHECK(read_checkpoint_state(found, world()).at("step") == 3);
  CHECK(load_checkpoint(found, model.tensors(), world(), backend()).at("step") == 3);
  folder.change([&] { tidy_checkpoints(dir); });
  CHECK(find_checkpoint(dir, world()) == three);
  CHECK(load_checkpoint(found, model.tensors(), world(), backend()).at("step") == 3);
}

TEST_CASE("ranks that see other checkpoints in a folder do not go on") {
  if (world().size() == 1) return;
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string zeros = (folder.path / "0").string(), others = (folder.path / "others").string();
  const bool last = world().rank() == world().size() - 1;
  const std::string& mine = last ? others : zeros;
  const auto save = [&](const std::string& dir, int64_t step, int attempt) {
    return save_checkpoint(dir, step, model.tensors(), {{"try", attempt}}, world(), backend());
  };
  const auto refused = [&](const std::string& first, const std::string& other) {
    CHECK_THROWS_WITH(find_checkpoint(mine, world()),
                      Catch::Contains("rank 0 finds " + first) &&
                          Catch::Contains(cat("rank ", world().size() - 1, " finds ", other)) &&
                          Catch::Contains("all ranks need the same folder"));
  };
  save(zeros, 1, 1);
  refused("step-00000001 (index ", "no complete checkpoint");
  save(others, 1, 1);
  CHECK(find_checkpoint(mine, world()) == mine + "/step-00000001");  // alike: a copy will do
  save(others, 2, 1);
  refused("step-00000001 (index ", "step-00000002 (index ");
  save(zeros, 2, 2);
  refused("step-00000002 (index ", "step-00000002 (index ");  // another training's second step
  save(zeros, 3, 1);
  refused("step-00000003 (index ", "step-00000002 (index ");
  CHECK(find_checkpoint(mine + "/step-00000001", world()) == mine + "/step-00000001");
}

TEST_CASE("damage is found, the file is named, and every rank is told") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string dir = folder.path;
  const std::string good = save_checkpoint(dir, 1, model.tensors(), nlohmann::json::object(), world(), backend());
  const auto refuse = [&](const std::string& name, const std::string& says,
                          const std::function<void(const fs::path&)>& how) {
    INFO(name);
    const fs::path bad = folder.path / name;
    folder.change([&] {
      fs::copy(good, bad);
      how(bad);
    });
    Trained other(world(), 6);
    CHECK_THROWS_WITH(load_checkpoint(bad.string(), other.tensors(), world(), backend()), Catch::Contains(says));
  };
  const auto flip = [](const fs::path& path, int64_t from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-from_end, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(-from_end, std::ios::end);
    file.put(byte);
  };
  for (int rank = 0; rank < world().size(); ++rank) {  // each rank's file
    const std::string shard = cat("rank-000", rank, ".safetensors");
    const auto in = [&](const char* what) { return cat(what, " ", rank); };
    refuse(in("cut"), shard, [&](const fs::path& p) { fs::resize_file(p / shard, fs::file_size(p / shard) - 1); });
    refuse(in("longer"), shard, [&](const fs::path& p) { std::ofstream(p / shard, std::ios::app) << 'x'; });
    refuse(in("gone"), shard, [&](const fs::path& p) { fs::remove(p / shard); });
    refuse(in("flipped"), shard + ": ", [&](const fs::path& p) { flip(p / shard, 5); });
  }
  // A piece that says it lies elsewhere, another step, a number of another kind: the index has a hash of its own.
  const auto edit = [&](const fs::path& p, const std::function<void(nlohmann::json&)>& how) {
    nlohmann::json index = nlohmann::json::parse(std::ifstream(p / "index.json"));
    how(index);
    std::ofstream(p / "index.json") << index.dump();
  };
  const char* damaged = "index.json is damaged";
  refuse("index moved", damaged, [&](const fs::path& p) { edit(p, [](auto& i) { i["pieces"][0]["offset"][0] = 1; }); });
  refuse("index step", damaged, [&](const fs::path& p) { edit(p, [](auto& i) { i["step"] = 2; }); });
  refuse("index less", damaged, [&](const fs::path& p) { edit(p, [](auto& i) { i["pieces"].erase(0); }); });
  refuse("index without hash", "index.json", [&](const fs::path& p) { edit(p, [](auto& i) { i.erase("hash"); }); });
  refuse("index of another version", "version 1",
         [&](const fs::path& p) { edit(p, [](auto& i) { i["version"] = 1; }); });
  refuse("index cut", "index.json",
         [&](const fs::path& p) { fs::resize_file(p / "index.json", fs::file_size(p / "index.json") - 1); });
  refuse("index empty", "index.json", [&](const fs::path& p) { fs::resize_file(p / "index.json", 0); });
  refuse("index gone", "index.json", [&](const fs::path& p) { fs::remove(p / "index.json"); });
  refuse("index garbage", "index.json", [&](const fs::path& p) { std::ofstream(p / "index.json") << "{\"version\":"; });
  CHECK_NOTHROW(load_checkpoint(good, model.tensors(), world(), backend()));
}

TEST_CASE("B52: gate and up saved by 2 ranks are themselves, in order, on any number") {
  const auto B52 = the_case("B52");
  const auto& in = B52["input"];
  const int64_t F = in["F"], E = in["D"];
  const int ranks = in["tp"];
  struct Cut {
    Cut(Comm& group, int64_t E, int64_t F) : mesh(group, backend(), {{"tp", group.size()}}), mlp(backend(), E, F) {
      ColwiseParallel().apply(mlp.gate_proj, mesh);
      ColwiseParallel().apply(mlp.up_proj, mesh);
      RowwiseParallel().apply(mlp.down_proj, mesh);
    }
    std::vector<CheckpointTensor> tensors() {
      std::vector<CheckpointTensor> all;
      for (Parameter* p : parameters_of(mlp))
        all.push_back({p->name(), p->global(), p->owned_box(), &p->owned_to_write(), p->speaks_for(mesh)});
      return all;
    }
    DeviceMesh mesh;
    SwiGluMlp mlp;
  };
  SharedFolder folder;
  for (const int64_t features : {F, int64_t{3}}) {  // 3: cut 2 + 1, where the 6 rows of both would be cut 3 + 3
    const auto cut_to = [&](const nlohmann::json& list) {
      auto values = floats_of(list);
      values.resize(features * E);
      return values;
    };
    const auto gate = cut_to(in["gate"]), up = cut_to(in["up"]);
    const auto savers = world().split(world().rank() < ranks ? 0 : 1, 0, "tp");
    if (world().rank() < ranks) {
      Cut saved(*savers, E, features);
      saved.mlp.gate_proj.weight.fill(gate), saved.mlp.up_proj.weight.fill(up);
      saved.mlp.down_proj.weight.fill(52);
      save_checkpoint(folder.path, features, saved.tensors(), nlohmann::json::object(), *savers, backend());
    }
    world().barrier().wait();
    const std::string at = find_checkpoint(folder.path / cat("step-0000000", features), world());
    for (int size = 1; size <= world().size(); ++size) {
      const auto group = world().split(world().rank() / size, 0, "group");
      INFO(features << " features in groups of " << size << ", this one has " << group->size());
      Cut loaded(*group, E, features);
      initialize(loaded.mlp, 53);  // other values: all of them come from the file
      load_checkpoint(at, loaded.tensors(), *group, backend());
      const auto check = [&](const Parameter& p, const std::vector<float>& whole) {
        INFO(p.name());
        CHECK(differs(p.value(), part_of(backend().from_host(whole, {features, E}), p.box())) == "");
      };
      check(loaded.mlp.gate_proj.weight, gate);
      check(loaded.mlp.up_proj.weight, up);
      if (group->size() == ranks && features == F) {
        const auto& right = B52["right"]["ranks"][group->rank()];
        CHECK(backend().to_host(loaded.mlp.gate_proj.weight.value()) == floats_of(right["gate"]));
        CHECK(backend().to_host(loaded.mlp.up_proj.weight.value()) == floats_of(right["up"]));
      }
    }
    world().barrier().wait();
  }
}

TEST_CASE("another model's tensors are refused with both shapes") {
  SharedFolder folder;
  Trained model(world(), 5);
  const std::string at =
      save_checkpoint(folder.path, 1, model.tensors(), nlohmann::json::object(), world(), backend());
  Tensor part = backend().empty({2, 2});
  const Box box = whole_box({2, 2});
  CHECK_THROWS_WITH(load_checkpoint(at, {{"lm_head.weight", {2, 2}, box, &part, true}}, world(), backend()),
                    Catch::Contains("[61,24]") && Catch::Contains("[2,2]"));
  CHECK_THROWS_WITH(load_checkpoint(at, {{"no.such", {2, 2}, box, &part, true}}, world(), backend()),
                    Catch::Contains("no.such"));
}
