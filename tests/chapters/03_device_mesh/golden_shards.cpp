// Who gets what, as PyTorch does it: tests/golden/README.md.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/03_device_mesh/spread.hpp"
#include "tests/support/golden.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

json read(const std::string& name) {
  std::ifstream in(golden_dir() + "/" + name);
  require(in.good(), "cannot read ", golden_dir(), "/", name);
  const json list = json::parse(in);
  require(!list.empty(), golden_dir(), "/", name, " is empty");
  return list;
}

// "S(0)", "R", "P(sum)"
Placement placement_of(const std::string& text) {
  if (text == "R") return Replicate();
  if (text.starts_with("P")) return Partial();
  require(text.starts_with("S("), "no such placement: ", text);
  return Shard(std::stoll(text.substr(2)));
}

int64_t calls(const json& counts) {
  int64_t sum = 0;
  for (const auto& [op, count] : counts.items()) sum += count.get<int64_t>();
  return sum;
}

}  // namespace

TEST_CASE("chunk cuts as torch.chunk does", "[golden]") {
  for (const auto& entry : read("chunks.json")) {
    const int64_t n = entry.at("n"), p = entry.at("p");
    const auto sizes = entry.at("sizes").get<std::vector<int64_t>>(),
               offsets = entry.at("offsets").get<std::vector<int64_t>>();
    INFO(n << " over " << p);
    CHECK(chunk_sizes(n, p) == sizes);
    for (int64_t r = 0; r < p; ++r) CHECK(chunk(n, p, r) == Chunk{offsets.at(r), sizes.at(r)});
  }
}

TEST_CASE("a mesh of two axes cuts tp first, then dp, as PyTorch does", "[golden]") {
  for (const auto& entry : read("nested_shards.json")) {
    const std::string style = entry.at("style");
    const Shape global = {entry.at("out_features"), entry.at("in_features")};
    REQUIRE((style == "colwise" || style == "rowwise"));
    const Placements placements = {Shard(style == "colwise" ? 0 : 1), Shard(0)};  // the axes in the order of cutting
    std::vector<int64_t> sizes = {1, 1};
    for (const auto& rank : entry.at("ranks")) {
      sizes[0] = std::max<int64_t>(sizes[0], rank.at("tp").get<int64_t>() + 1);
      sizes[1] = std::max<int64_t>(sizes[1], rank.at("dp").get<int64_t>() + 1);
    }
    for (const auto& rank : entry.at("ranks")) {
      INFO(style << " " << show(global) << " at dp " << rank.at("dp") << ", tp " << rank.at("tp"));
      const Box box = local_box(sizes, {rank.at("tp"), rank.at("dp")}, placements, global);
      std::vector<int64_t> rows, columns;
      for (int64_t i = 0; i < box.size[0]; ++i) rows.push_back(box.offset[0] + i);
      for (int64_t j = 0; j < box.size[1] && !rows.empty(); ++j) columns.push_back(box.offset[1] + j);
      CHECK(rows == rank.at("rows").get<std::vector<int64_t>>());
      CHECK(columns == rank.at("cols").get<std::vector<int64_t>>());
    }
  }
}

// On the CPU PyTorch's Shard(i) → Shard(j) shows as an all-gather; ours is one all-to-all.
TEST_CASE("no transition makes more calls than PyTorch's", "[golden]") {
  Traffic traffic;
  Recorder recorder(world(), traffic);
  const json all = read("comm_counts.json").at("redistribute");
  std::map<int64_t, DeviceMesh> meshes;
  for (const auto& entry : all) {
    const int64_t tp = entry.at("tp");
    if (world().size() % tp) continue;
    if (!meshes.contains(tp))
      meshes.emplace(tp, DeviceMesh(recorder, backend(), {{"dp", world().size() / tp}, {"tp", tp}})["tp"]);
    const DeviceMesh& mesh = meshes.at(tp);
    const Placement from = placement_of(entry.at("from")), to = placement_of(entry.at("to"));
    const Spread x("x", {4, 8, 6}), gradient("gradient", {4, 8, 6});
    INFO(show(from) << " → " << show(to) << " on " << tp);
    if (entry.contains("error")) {
      CHECK_THROWS_AS(x.parts(mesh, {from}).redistribute({to}), SharedError);
      continue;
    }
    const auto compare = [&](const DTensor& parts, const Placement& target, const json& counts) {
      traffic.clear();
      parts.redistribute({target});
      CHECK(traffic.total().calls == calls(counts));
      if (traffic.count(Op::AllToAll) > 0) {
        CHECK(counts.value("all_gather", 0) == 1);
      } else {
        CHECK(traffic.count(Op::AllGather) == counts.value("all_gather", 0));
        CHECK(traffic.count(Op::ReduceScatter) == counts.value("reduce_scatter", 0));
        CHECK(traffic.count(Op::AllReduce) == counts.value("all_reduce", 0));
      }
    };
    compare(x.parts(mesh, {from}), to, entry.at("forward"));
    if (!is_partial(to)) compare(gradient.parts(mesh, {to}), gradient_of(from), entry.at("backward"));
  }
}
