// PyTorch's Llama: one forward and backward (llama__), and what it was trained on and how (train__). For chapters 09 to
// 13, which differ in how the model is cut, in the loss, and in what is left to do with the gradients.
#pragma once

#include <cmath>

#include "chapters/09_llama/clip.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {

inline int32_t pad_of(const Golden& golden) { return static_cast<int32_t>(golden.integer("pad_id")); }

// llama: of config_of(golden), cut as wanted, not filled yet; loss: ignores pad_of(golden). This rank's logits and
// parts of the gradients, the loss and the gradients' norm, against the file's. slack: how much further than the file's
// tolerance a gradient may be, where sums are made in another order.
inline void check_golden_llama(const Golden& golden, Llama& llama, Loss& loss, const GradientSteps& gradients = {},
                               double slack = 1) {
  const double tolerance = golden_tolerance(golden);
  fill_from(llama, golden);
  auto attend = golden.ids("in.ids");
  for (int32_t& id : attend) id = id != pad_of(golden);
  const Tensor mask = backend().from_host(attend, golden.shape("in.ids"));
  llama.context().attend = &mask;

  DTensor logits = llama.forward(golden.tensor("in.ids"));
  Tensor expected = golden.tensor("out.logits");
  CHECK(logits.global() == expected.shape());
  if (logits.has_layout()) {
    const Layout& at = logits.layout();
    expected = part_of(expected, local_box(at.mesh, at.placements, at.global));
  }
  CHECK(differs(logits.local(), expected, tolerance) == "");
  const Tensor targets = golden.tensor("in.targets");
  const auto valid = static_cast<double>(loss.valid(targets));
  CHECK(loss.forward(std::move(logits), targets) / valid == Approx(golden.values("out.loss")[0]).epsilon(tolerance));
  llama.backward(loss.backward(valid));

  const Parameters parameters = parameters_of(llama);
  gradients.finish(parameters);
  double squares = 0;
  for (Parameter* p : parameters) {
    INFO("gradient of " << p->name());
    const Tensor whole = golden.tensor("grad." + p->name());
    squares += backend().squared_norm(whole);
    CHECK(differs(p->gradient(), part_of(whole, p->box()), slack * tolerance) == "");
  }
  const double norm = gradients.norm ? gradients.norm(parameters) : std::sqrt(squared_norm(parameters));
  CHECK(norm == Approx(std::sqrt(squares)).epsilon(1e-5));
}

// The tokens of a train__ file. Its sample i is sample 2i of this stream: the samples of a stream share a token with
// their neighbours, those of the file do not.
inline TokenData stream_of(const Golden& golden) {
  const Shape shape = golden.shape("in.tokens");
  const int64_t samples = shape[0] * shape[1], S = shape[2] - 1;
  const auto tokens = golden.ids("in.tokens");
  std::vector<int32_t> stream(2 * S * samples + 1);
  for (int64_t i = 0; i < samples; ++i) std::copy_n(tokens.begin() + i * (S + 1), S + 1, stream.begin() + 2 * S * i);
  return {S, std::move(stream)};
}

// The batches of that file in that stream, and how it was trained.
inline Sampler batches_of(const Golden& golden) {
  return [B = golden.shape("in.tokens")[1]](int64_t b) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < B; ++i) list.push_back(2 * (b * B + i));
    return list;
  };
}

inline TrainerOptions training_of(const Golden& golden) {
  return {.schedule = {golden.number("lr"), golden.integer("warmup_steps"), golden.integer("total_steps")},
          .max_norm = golden.number("max_norm")};
}

inline AdamWOptions adamw_of(const Golden& golden) {
  return {golden.number("beta1"), golden.number("beta2"), golden.number("eps"), golden.number("weight_decay")};
}

}  // namespace course::test
