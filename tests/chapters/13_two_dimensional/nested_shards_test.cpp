// Who holds which rows on a 2×2 mesh: what TP cuts, FSDP cuts again. tests/golden/README.md, "Two-dimensional shards".
#include <fstream>
#include <nlohmann/json.hpp>

#include "chapters/04_sharded_linear/linear.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

TEST_CASE("place, then own_part: the rows and columns that PyTorch gives each rank", "[golden]") {
  if (world().size() != 4) return;
  const DeviceMesh mesh(world(), backend(), {{"dp", 2}, {"tp", 2}});
  const std::string path = golden_dir() + "/nested_shards.json";
  std::ifstream in(path);
  require(in.good(), "cannot read ", path);
  size_t seen = 0;
  for (const auto& entry : json::parse(in)) {
    const std::string style = entry.at("style");
    const int64_t O = entry.at("out_features"), I = entry.at("in_features");
    INFO(style << " [" << O << "," << I << "]");
    REQUIRE((style == "colwise" || style == "rowwise"));
    Linear linear(backend(), I, O, false);
    if (style == "colwise")
      ColwiseParallel().apply(linear, mesh["tp"]);
    else
      RowwiseParallel().apply(linear, mesh["tp"]);
    const auto unit = fully_shard(linear, mesh["dp"]);
    Parameter& weight = *parameters_of(linear)[0];
    const Tensor whole = random(cat("weight", O, "x", I), {O, I});
    weight.fill(backend().to_host(whole));

    for (const auto& rank : entry.at("ranks")) {
      if (rank.at("dp") != mesh["dp"].coordinate() || rank.at("tp") != mesh["tp"].coordinate()) continue;
      ++seen;
      const Box& box = weight.owned_box();
      std::vector<int64_t> rows, columns;
      for (int64_t i = 0; i < box.size[0]; ++i) rows.push_back(box.offset[0] + i);
      for (int64_t j = 0; j < box.size[1] && !rows.empty(); ++j) columns.push_back(box.offset[1] + j);
      CHECK(rows == rank.at("rows").get<std::vector<int64_t>>());
      CHECK(columns == rank.at("cols").get<std::vector<int64_t>>());
      CHECK(differs(weight.owned(), part_of(whole, box)) == "");
    }
    // Gathered over dp, a rank has the piece that TP left it: what the Linear computes with.
    unit->unshard();
    CHECK(differs(weight.value(), part_of(whole, weight.box())) == "");
    CHECK(weight.box() == local_box(mesh["tp"], {weight.placement("tp")}, {O, I}));
    unit->reshard();
    CHECK_FALSE(weight.gathered());
  }
  CHECK(seen > 0);
}

// Under both cuts the pieces of all ranks together are each parameter once, or once a replica.
TEST_CASE("the pieces that speak cover every parameter exactly once") {
  for (const MeshSize& size : meshes_of(world().size()))
    for (const PlanChoice& choice : all_plans()) {
      INFO(show(size, choice));
      TwoDimensional run(world(), size, uneven_config(), choice);
      for (Parameter* p : parameters_of(run.llama)) {
        INFO(p->name());
        std::vector<int32_t> holders(numel(p->global()));
        if (p->speaks_for(run.mesh)) {
          const Box& box = p->owned_box();
          const int64_t columns = box.size.size() == 2 ? box.size[1] : 1, all = columns == 1 ? 1 : p->global()[1];
          const int64_t first = box.size.size() == 2 ? box.offset[1] : 0;
          for (int64_t i = 0; i < box.size[0]; ++i)
            for (int64_t j = 0; j < columns; ++j) ++holders[(box.offset[0] + i) * all + first + j];
        }
        world().all_reduce(std::span(holders)).wait();
        CHECK(holders == std::vector<int32_t>(holders.size(), 1));
      }
    }
}
