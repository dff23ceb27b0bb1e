#include "chapters/09_llama/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/rng.hpp"

namespace course {

int32_t sample(const std::vector<float>& logits, const GenerateOptions& options, int64_t step) {
  const int64_t all = static_cast<int64_t>(logits.size());
  const int64_t V = options.vocabulary > 0 ? std::min(options.vocabulary, all) : all;
  if (options.temperature <= 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.begin() + V) - logits.begin());
  std::vector<int32_t> order(V);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0 && options.top_k < V) order.resize(options.top_k);
  std::vector<double> weight;
  double total = 0;
  for (const int32_t id : order) {
    weight.push_back(std::exp((double(logits[id]) - logits[order[0]]) / options.temperature));
    total += weight.back();
  }
  // The nucleus: the shortest front of the order that holds top_p of the weight.
  double kept = 0;
  size_t count = 0;
  while (count < weight.size() && (count == 0 || kept < options.top_p * total)) kept += weight[count++];
  double draw = Rng(options.seed, "sample").uniform(step) * kept;
  for (size_t i = 0; i < count; ++i)
    if ((draw -= weight[i]) < 0) return order[i];
  return order[count - 1];
}

namespace {

// The logits of the last position, on the host of every rank.
std::vector<float> last_row(Backend& backend, const DTensor& logits) {
  const Tensor whole = logits.has_layout() ? logits.full() : backend.clone(logits.local());
  return backend.floats(backend.slice(whole, 1, whole.dim(1) - 1, 1));
}

}  // namespace

std::vector<int32_t> generate(Llama& llama, std::vector<int32_t> prompt, std::optional<int32_t> end,
                              const GenerateOptions& options, Comm& world, const std::function<void(int32_t)>& each) {
  int64_t length = static_cast<int64_t>(prompt.size());
  world.broadcast(std::span(&length, 1), 0).wait();
  prompt.resize(length);
  world.broadcast(std::span(prompt), 0).wait();
  const int64_t limit = llama.config().max_position_embeddings;
  require_shared(length > 0, "a prompt needs a token: begin with [BOT]");
  require_shared(length <= limit, "a prompt of ", length, " tokens, the model's positions end at ", limit);

  SequenceContext& context = llama.context();
  const std::shared_ptr<void> after(nullptr, [&](void*) {
    context = {};
    llama.forget_cache();
    llama.set_training(true);
  });
  llama.set_training(false);
  llama.forget_cache();
  context = {0, nullptr, true};
  std::vector<int32_t> made, input = std::move(prompt);
  while (static_cast<int64_t>(made.size()) < options.tokens &&
         context.offset + static_cast<int64_t>(input.size()) <= limit) {
    const DTensor logits = llama.forward(llama.backend().from_host(input, {1, static_cast<int64_t>(input.size())}));
    const auto row = last_row(llama.backend(), logits);
    int32_t next = world.rank() == 0 ? sample(row, options, static_cast<int64_t>(made.size())) : 0;
    world.broadcast(std::span(&next, 1), 0).wait();
    context.offset += static_cast<int64_t>(input.size());
    if (end && next == *end) break;
    made.push_back(next);
    if (each && world.rank() == 0) each(next);
    input = {next};
  }
  return made;
}

}  // namespace course
