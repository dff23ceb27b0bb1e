#include "chapters/12_fully_sharded/sharded_memory.hpp"

#include <algorithm>
#include <numeric>

#include "common/chunk.hpp"

namespace course {
namespace {

int64_t whole(const std::vector<LocalParameter>& all) {
  return std::accumulate(all.begin(), all.end(), int64_t{0},
                         [](int64_t sum, const auto& p) { return sum + p.bytes(); });
}

}  // namespace

std::vector<Moment> fully_sharded_memory(std::vector<Moment> moments, const StepSizes& z, int64_t dp, int64_t dp_rank) {
  if (dp == 1) return moments;
  const auto mine = [&](const std::vector<LocalParameter>& all) {
    int64_t sum = 0;
    for (const auto& p : all) sum += LocalParameter{chunk(p.rows, dp, dp_rank).size, p.row}.bytes();
    return sum;
  };
  const int64_t W = whole(layer_parameters(z)), w = mine(layer_parameters(z));
  const int64_t R = whole(top_parameters(z)), r = mine(top_parameters(z));
  const auto in_use = [&](int64_t bytes) { return bytes / 4 * size_of(z.type); };  // of values that are gathered
  const int64_t L = z.config.num_hidden_layers, owned = L * w + r;
  const int64_t always = moments.front().bytes[MemoryClass::Buffers] - moments.front().messages;
  const bool again = z.micro_batches > 1;
  const auto gradients = [&](int64_t reduced, int64_t in_work) { return (again ? owned : reduced * w) + in_work; };

  for (Moment& m : moments) {
    const bool head_backward = m.layer < 0 && m.top_gradients > 0 && m.layers_done == 0;  // and no layer's yet
    const bool over = m.last_sums, layer = m.layer >= 0;
    const bool gathering = m.layer > 0 || head_backward,
               reducing = layer ? m.layers_done > 0 : m.layers_done == L && !over;
    m.bytes[MemoryClass::Parameters] = owned;
    m.bytes[MemoryClass::Optimizer] = 2 * owned;
    m.bytes[MemoryClass::Gradients] =
        over ? owned : gradients(m.layers_done - (reducing ? 1 : 0), m.top_gradients + m.layer_gradients);
    if (!over) m.bytes[MemoryClass::Buffers] += in_use(R + (layer ? W : 0) + (gathering ? W + w : 0)) + (reducing ? W + w : 0);
  }
  const auto add = [&](const std::string& name, int64_t activations, int64_t buffers, int64_t gradient_bytes) {
    Moment m{.name = name, .layer = -1, .bytes = {}};
    m.bytes[MemoryClass::Parameters] = owned;
    m.bytes[MemoryClass::Optimizer] = 2 * owned;
    m.bytes[MemoryClass::Activations] = activations;
    m.bytes[MemoryClass::Buffers] = always + buffers;
    m.bytes[MemoryClass::Gradients] = gradient_bytes;
    moments.push_back(m);
  };
  const int64_t head = R - top_parameters(z).front().bytes();
  add("the root gathered", 4 * z.B * z.S, in_use(2 * R), again ? owned : 0);
  const int64_t waiting = std::max<int64_t>(1, L - 1);  // layers whose backward is still to come
  add("a layer gathered again", z.recompute ? 0 : waiting * layer_keeps(z), in_use(R + 2 * W + (L > 1 ? W + w : 0)),
      gradients(0, head));
  if (L > 1) {
    const int64_t left = 4 * z.B * z.S + (L - 1) * (z.recompute ? stream_bytes(z) : layer_keeps(z)) + stream_bytes(z);
    add("the last layer's gradients packed", left, in_use(R + W + w) + W + w, gradients(0, head + W));
    add("the layer before it gathered again", left, in_use(R + 2 * W) + W + w, gradients(0, head));
  }
  int64_t largest = 0;  // part of a parameter, on its way to what earlier micro-batches left
  for (const auto& p : layer_parameters(z))
    if (again) largest = std::max(largest, LocalParameter{chunk(p.rows, dp, dp_rank).size, p.row}.bytes());
  add("the first layer's gradients packed", 0, in_use(R) + W + w, gradients(L - 1, head + W + (L > 1 ? largest : 0)));
  add("the root's gradients packed", 0, R + r, gradients(L, R + largest));
  return moments;
}

std::vector<Moment> data_parallel_memory(std::vector<Moment> moments, const StepSizes& z, int64_t dp,
                                         const std::vector<int64_t>& bucket_bytes) {
  if (dp == 1) return moments;
  const int64_t layer = whole(layer_parameters(z)), top = whole(top_parameters(z));
  const int64_t head = top - top_parameters(z).front().bytes();
  for (Moment& m : moments) {
    const bool head_done = m.layer >= 0 || m.layers_done > 0;
    const int64_t ready =
        m.last_sums ? top + m.layers_done * layer : (head_done ? head : 0) + m.layers_done * layer;
    int64_t packed = 0;
    for (const int64_t bucket : bucket_bytes) {
      if (packed + bucket > ready) break;
      packed += bucket;
    }
    m.bytes[MemoryClass::Buffers] += packed;
  }
  return moments;
}

}  // namespace course
