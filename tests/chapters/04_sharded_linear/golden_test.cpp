// PyTorch's Linear and Embedding: serial, and cut in every layout.
#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "tests/chapters/04_sharded_linear/layouts.hpp"

namespace course::test {
namespace {

// `make` gives a fresh module, with its style where one is given. Every way to cut it, and no cut.
template <typename Make>
void check_all(const Golden& golden, const Tensor& x, const Placement& columns_want, const Placement& rows_want,
               bool partial, const Make& make) {
  INFO(golden.name());
  const double tolerance = golden_tolerance(golden);
  const Tensor dy = golden.tensor("in.dout");
  const Expected expected = expected_of(golden);
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  {
    INFO("serial");
    const auto alone = world().split(world().rank(), 0, "alone");
    const auto serial = make();
    fill_from(*serial, golden);
    check_module(expected, *serial, DeviceMesh(*alone, backend(), {{"tp", 1}}), x, dy, {.tolerance = tolerance});
  }
  for (const bool colwise : {true, false})
    for (Layouts at :
         layouts(colwise ? columns_want : rows_want, partial && colwise, x.shape(), tp.size(), tolerance)) {
      at.check.with_layout = at.check.with_layout || as_shard(at.check.input);  // plain parts: see linear_test.cpp
      if (at.check.with_layout && partial && colwise && is_replicate(at.check.input))
        at.check.input_gradient = Partial();
      INFO((colwise ? "ColwiseParallel " : "RowwiseParallel ") << shown(at));
      const auto sharded = make();
      if (colwise)
        ColwiseParallel().input(at.style_input).output(at.output).use_local_output(at.local_output).apply(*sharded, tp);
      else
        RowwiseParallel().input(at.style_input).output(at.output).use_local_output(at.local_output).apply(*sharded, tp);
      fill_from(*sharded, golden);
      check_module(expected, *sharded, tp, x, dy, at.check);
    }
}

}  // namespace

TEST_CASE("PyTorch's Linear, serial and in every layout", "[golden]") {
  for (const auto& path : golden_files("linear__")) {
    const Golden golden(path);
    const Tensor x = golden.tensor("in.x");
    Shape rows = golden.integers("batch");
    rows.push_back(golden.integer("in_features"));
    CHECK(rows == x.shape());
    check_all(golden, x, Replicate(), Shard(-1), true, [&] {
      return std::make_unique<Linear>(backend(), golden.integer("in_features"), golden.integer("out_features"),
                                      golden.flag("bias"));
    });
  }
}

TEST_CASE("PyTorch's Embedding, serial and in every layout", "[golden]") {
  for (const auto& path : golden_files("embedding__")) {
    const Golden golden(path);
    const Tensor ids = golden.tensor("in.ids");
    CHECK(golden.integers("shape") == ids.shape());
    check_all(golden, ids, Replicate(), Replicate(), false, [&] {
      return std::make_unique<Embedding>(backend(), golden.integer("vocab_size"), golden.integer("hidden_size"));
    });
  }
}

}  // namespace course::test
