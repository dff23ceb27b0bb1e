// Mixed precision: bf16 to compute with, f32 for what sums or is kept. Case B26, and the copies of the weights.
#include <cmath>

#include "chapters/09_llama/adamw.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

// The gradient of a weight of one number, of micro-batches whose own gradients are these.
float accumulated(const std::vector<float>& micro_gradients) {
  Linear linear(backend(), 1, 1);
  compute_in(linear, DType::BF16);
  linear.weight.fill(std::vector<float>{1});
  for (const float g : micro_gradients) {
    linear.forward(half(backend().full({1, 1, 1}, 1)));
    linear.backward(half(backend().full({1, 1, 1}, g)));
  }
  return backend().to_host(linear.weight.gradient())[0];
}

std::vector<float> in_use(const Parameter& p) { return backend().floats(p.value()); }

}  // namespace

TEST_CASE("B26 a, b: micro-gradients in bf16 add up in f32") {
  const auto right = the_case("B26")["right"];
  CHECK(accumulated({256, 1}) == right["a"].get<float>());
  CHECK(accumulated(std::vector<float>(512, 1)) == right["b"].get<float>());
}

TEST_CASE("B26 c: AdamW updates an f32 master, modules see its bf16 copy") {
  const auto B26 = the_case("B26");
  Parameter w(backend(), "w", {1}, Init{});
  w.compute_in(DType::BF16);
  w.fill(std::vector<float>{B26["input"]["c"]["w"].get<float>()});
  AdamW optimizer({&w}, {.weight_decay = 0});
  for (int step = 0; step < 3; ++step) {
    w.clear_gradient();
    backend().fill(w.gradient(), 1);
    CHECK(in_use(w)[0] <= 1);  // a forward looks at the copy, before each step
    optimizer.step(B26["input"]["c"]["lr"]);
  }
  CHECK(backend().to_host(w.owned())[0] == Approx(B26["right"]["c_master"].get<double>()).epsilon(1e-7));
  CHECK(in_use(w)[0] == B26["right"]["c_bf16_copy"].get<float>());
  CHECK(w.value().dtype() == DType::BF16);
}

TEST_CASE("mixed precision: the copy follows the master, whoever writes to it") {
  Parameter w(backend(), "w", {2, 3}, Init{Init::Uniform, 1});
  w.compute_in(DType::BF16);
  const auto check = [&] {
    const std::vector<float> master = backend().to_host(w.owned()), copy = in_use(w);
    for (size_t i = 0; i < copy.size(); ++i) CHECK(copy[i] == float(BFloat16(master[i])));
  };
  w.fill(7);
  check();
  Tensor& master = w.owned_to_write();
  backend().scale(master, 3);
  check();
  w.fill(8);
  check();
  CHECK_THROWS_WITH(w.compute_in(DType::F32), Catch::Contains("before it is filled"));
}

TEST_CASE("mixed precision: a model starts from the weights of f32, and saves them") {
  const LlamaConfig config = little_config();
  Llama f32(backend(), config), mixed(backend(), config);
  compute_in(mixed, DType::BF16);
  initialize(f32, 3), initialize(mixed, 3);
  const TestFolder folder;
  save_weights(mixed, folder.path / "mixed.safetensors");
  Llama loaded(backend(), config);
  initialize(loaded, 4);
  load_weights(loaded, folder.path / "mixed.safetensors");
  const Parameters a = parameters_of(f32), b = parameters_of(mixed), c = parameters_of(loaded);
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(differs(b[i]->owned(), a[i]->owned()) == "");
    CHECK(differs(c[i]->owned(), a[i]->owned()) == "");
  }
}

TEST_CASE(
    "mixed precision: activations and logits are bf16, gradients f32; a cache continues what the whole would say") {
  const LlamaConfig config = little_config();
  Llama llama(backend(), config), f32(backend(), config);
  compute_in(llama, DType::BF16);
  initialize(llama, 3), initialize(f32, 3);
  const std::vector<int32_t> ids = random_ids("prompt", 9, config.vocab_size);
  const auto tokens = [&](int64_t begin, int64_t count) {
    return backend().from_host(std::vector<int32_t>(ids.begin() + begin, ids.begin() + begin + count), {1, count});
  };
  const Tensor logits = llama.forward(tokens(0, 9)).take(backend());
  CHECK(logits.dtype() == DType::BF16);
  const Tensor exact = f32.forward(tokens(0, 9)).take(backend());
  CHECK(differs(backend().floats(logits), backend().to_host(exact), logits.shape(), 0.05) == "");
  CHECK(differs(backend().floats(logits), backend().to_host(exact), logits.shape(), 1e-4) != "");
  const DTensor dx = llama.backward(backend().clone(logits));
  for (Parameter* p : parameters_of(llama)) {
    CHECK(p->gradient().dtype() == DType::F32);
    CHECK(backend().squared_norm(p->gradient()) > 0);
  }

  llama.set_training(false);
  llama.context() = {0, nullptr, true};
  llama.forward(tokens(0, 8));
  llama.context().offset = 8;
  const Tensor last = llama.forward(tokens(8, 1)).take(backend());
  llama.forget_cache();
  CHECK(differs(backend().floats(last), backend().floats(backend().slice(logits, 1, 8, 1)), last.shape(), 0.05) == "");
}
