// Case B26 c: what a checkpoint keeps in mixed precision is the f32 master, not the bf16 copy that modules compute
// with.
#include <nlohmann/json.hpp>

#include "chapters/09_llama/adamw.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/shared_folder.hpp"

using namespace course;
using namespace course::test;

namespace {

// One weight of one number, alike on every rank, and its optimizer.
struct OneWeight {
  explicit OneWeight(float value) : w(backend(), "w", {1}, Init{}) {
    w.compute_in(DType::BF16);
    w.fill(std::vector<float>{value});
    optimizer = std::make_unique<AdamW>(Parameters{&w}, AdamWOptions{.weight_decay = 0});
  }
  std::vector<CheckpointTensor> tensors() {
    const bool speaks = world().rank() == 0;
    return {{"w", {1}, w.box(), &w.owned_to_write(), speaks},
            {"exp_avg.w", {1}, w.box(), &optimizer->mean(0), speaks},
            {"exp_avg_sq.w", {1}, w.box(), &optimizer->square(0), speaks}};
  }
  void step(float gradient, double lr) {
    w.clear_gradient();
    backend().fill(w.gradient(), gradient);
    optimizer->step(lr);
  }
  float master() { return backend().to_host(w.owned())[0]; }
  float copy() { return backend().floats(w.value())[0]; }

  Parameter w;
  std::unique_ptr<AdamW> optimizer;
};

}  // namespace

TEST_CASE("B26 c: saved and resumed after each step, the master goes on to the last bit") {
  const auto B26 = the_case("B26");
  const auto& in = B26["input"]["c"];
  const float start = in["w"], gradient = in["grad"];
  const double lr = in["lr"];
  const SharedFolder folder;
  OneWeight uninterrupted(start);
  auto run = std::make_unique<OneWeight>(start);
  for (int64_t n = 1; n <= in["steps"].get<int64_t>(); ++n) {
    INFO("step " << n);
    uninterrupted.step(gradient, lr);
    run->step(gradient, lr);
    CHECK(run->copy() == float(BFloat16(run->master())));
    const std::string saved = save_checkpoint(folder.path, n, run->tensors(), {{"step", n}}, world(), backend());
    run = std::make_unique<OneWeight>(5.0F);  // of another value: all comes from the file
    CHECK(run->copy() == 5);
    load_checkpoint(saved, run->tensors(), world(), backend());
    run->optimizer->resume_at(n);
    CHECK(run->master() == uninterrupted.master());
    CHECK(run->copy() == uninterrupted.copy());
  }
  CHECK(run->master() == Approx(B26["right"]["c_master"].get<double>()).epsilon(1e-7));
  CHECK(run->copy() == B26["right"]["c_bf16_copy"].get<float>());
}
