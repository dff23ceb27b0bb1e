// Through all the joints at once: two Linears, a plan, FSDP, AdamW, a checkpoint written on a dp × tp mesh and read on one
// rank, all equal to the serial self.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/08_parallel_plan/parallel_plan.hpp"
#include "chapters/09_llama/adamw.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"
#include "chapters/12_fully_sharded/fully_shard.hpp"
#include "common/support/session.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace course;
using namespace course::test;

namespace {

// B batch  I in  M middle  O out: none divides by 2
constexpr int64_t B = 6, I = 5, M = 7, O = 3;

class TwoLinears : public Module {
 public:
  explicit TwoLinears(Backend& backend)
      : Module(backend),
        first(add("first", std::make_unique<Linear>(backend, I, M, true))),
        second(add("second", std::make_unique<Linear>(backend, M, O, true))) {}
  std::string kind() const override { return "TwoLinears"; }
  Linear &first, &second;

 private:
  DTensor run_forward(DTensor x) override { return second.forward(first.forward(std::move(x))); }
  DTensor run_backward(DTensor dy) override { return first.backward(second.backward(std::move(dy))); }
};

// Rows r, r+dp, ... of a random batch.
Tensor rows_of(const Tensor& whole, int64_t dp, int64_t r) {
  Tensor mine = backend().empty({B / dp, whole.dim(1)});
  for (int64_t i = 0; i < B / dp; ++i) backend().copy_slice(whole, i * dp + r, mine, i, 0, 1);
  return mine;
}

struct Run {
  explicit Run(Comm& world, int64_t dp, int64_t tp)
      : mesh(world, backend(), {{"dp", dp}, {"tp", tp}}), model(backend()) {
    parallelize_module(model, mesh["tp"], {{"first", ColwiseParallel()}, {"second", RowwiseParallel()}});
    if (dp > 1) {
      fully_shard(model.first, mesh["dp"]);
      fully_shard(model, mesh["dp"], false);
    }
    initialize(model, 11);
    optimizer = std::make_unique<AdamW>(parameters_of(model));
  }

  void step(int64_t n) {
    const int64_t dp = mesh["dp"].size(), r = mesh["dp"].coordinate();
    y = model.forward(rows_of(random(cat("x", n), {B, I}), dp, r)).take(backend());
    model.backward(rows_of(random(cat("dy", n), {B, O}), dp, r));
    finish_gradients(optimizer->parameters(), mesh["tp"]);
    optimizer->step(0.01);
    clear_gradients(model);
  }

  std::vector<CheckpointTensor> tensors() {
    std::vector<CheckpointTensor> all;
    const auto& parameters = optimizer->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      Parameter& p = *parameters[i];
      const bool speaks = p.speaks_for(mesh);
      all.push_back({p.name(), p.global(), p.owned_box(), &p.owned_to_write(), speaks});
      all.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer->mean(i), speaks});
      all.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer->square(i), speaks});
    }
    return all;
  }

  DeviceMesh mesh;
  TwoLinears model;
  std::unique_ptr<AdamW> optimizer;
  Tensor y;
};

}  // namespace

TEST_CASE("two Linears under tp and FSDP equal their serial self, and so does a checkpoint read on one rank") {
  const int size = world().size();
  const auto alone = world().split(world().rank(), 0, "alone");
  for (const int64_t tp : {1, 2, 3, 4}) {
    if (size % tp) continue;
    const int64_t dp = size / tp;
    if (B % dp) continue;
    CAPTURE(dp, tp);
    Run sharded(world(), dp, tp), serial(*alone, 1, 1);
    for (int64_t n = 1; n <= 3; ++n) {
      sharded.step(n);
      serial.step(n);
      CHECK(differs(sharded.y, rows_of(serial.y, dp, sharded.mesh["dp"].coordinate()), 1e-5) == "");
    }
    const auto dir = std::filesystem::temp_directory_path() / cat("course_slice_", size);
    const nlohmann::json state = {{"seed", 11}};
    const std::string folder = save_checkpoint(dir.string(), 3, sharded.tensors(), state, world(), backend());

    Run loaded(*alone, 1, 1);
    CHECK(load_checkpoint(find_checkpoint(dir.string(), *alone), loaded.tensors(), *alone, backend()) == state);
    const auto want = serial.tensors(), got = loaded.tensors();
    for (size_t i = 0; i < want.size(); ++i) {
      INFO(want[i].name);
      CHECK(differs(*got[i].part, *want[i].part, 2e-5) == "");
    }
    world().barrier().wait();
    if (world().rank() == 0) std::filesystem::remove_all(dir);
    world().barrier().wait();
  }
}
