#include "chapters/10_tensor_parallel_training/step_memory.hpp"

#include <algorithm>
#include <cmath>

#include "common/backend/scratch.hpp"
#include "common/chunk.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

// Sizes in elements; `a` is the bytes of one of an activation, or of a weight in use.
struct Local {
  explicit Local(const StepSizes& z) {
    const AttentionSizes of = z.config.attention();
    const auto part = [&](int64_t count, int64_t block = 1) { return chunk(count, z.p, z.rank, block).size; };
    const bool article = z.plan == PlanKind::Article;
    L = z.config.num_hidden_layers, V = z.config.vocab_size, E = of.hidden, S = z.S, N = z.B * z.S;
    const int64_t all_q = of.heads * of.head_dim, all_kv = of.kv_heads * of.head_dim;
    q_columns = part(all_q, article ? 1 : of.query_block());
    kv_columns = part(all_kv, article ? 1 : of.kv_block());
    q = article ? all_q : q_columns, kv = article ? all_kv : kv_columns;
    h = q / of.head_dim;
    i = part(z.config.intermediate_size), v = part(V);
    sliced = z.plan != PlanKind::Basic && z.p > 1;
    copies = article && z.p > 1;
    n = z.B * (sliced ? part(S) : S);
    a = size_of(z.type);
    for (const auto& p : layer_parameters(z)) layer += p.rows * p.row;
    for (const auto& p : top_parameters(z)) top += p.rows * p.row;
  }
  int64_t L, V, E, S, N, n, q, kv, h, i, v, q_columns, kv_columns, a;
  int64_t layer = 0, top = 0;  // parameters
  bool sliced, copies;
};

int64_t kept(const Local& s) {
  return s.a * (2 * s.n * s.E + s.N * (2 * s.E + 2 * s.q + 2 * s.kv + 3 * s.i) + (s.copies ? s.N * s.q_columns : 0)) +
         4 * (2 * s.n + s.N * s.h + s.S);
}

}  // namespace

StepSizes step_sizes(const TrainingOptions& o, int64_t tp_rank, int64_t norm_size, Backend& backend) {
  return {.config = o.config(),
          .plan = plan_kind(o.plan),
          .loss_parallel = o.loss_parallel,
          .recompute = o.recompute == "layer",
          .B = o.batch / o.dp / o.accumulate,
          .S = o.seq,
          .p = o.tp,
          .rank = tp_rank,
          .micro_batches = o.accumulate,
          .norm_size = norm_size,
          .device = backend.memory().device(),
          .type = o.compute_type()};
}

std::vector<LocalParameter> layer_parameters(const StepSizes& z) {
  const AttentionSizes a = z.config.attention();
  const bool article = z.plan == PlanKind::Article;
  const auto part = [&](int64_t count, int64_t block) { return chunk(count, z.p, z.rank, article ? 1 : block).size; };
  const int64_t E = a.hidden, q = part(a.heads * a.head_dim, a.query_block()),
                kv = part(a.kv_heads * a.head_dim, a.kv_block()), i = part(z.config.intermediate_size, 1);
  return {{E, 1}, {q, E}, {kv, E}, {kv, E}, {E, q}, {E, 1}, {i, E}, {i, E}, {E, i}};
}

std::vector<LocalParameter> top_parameters(const StepSizes& z) {
  const int64_t E = z.config.hidden_size, v = chunk(z.config.vocab_size, z.p, z.rank).size;
  return {{v, E}, {E, 1}, {v, E}};
}

int64_t layer_keeps(const StepSizes& z) { return kept(Local(z)); }

int64_t stream_bytes(const StepSizes& z) {
  const Local s(z);
  return s.a * s.n * s.E;
}

std::vector<Moment> tensor_parallel_memory(const StepSizes& z) {
  const Local s(z);
  const auto& [L, V, E, S, N, n, q, kv, h, i, v, q_columns, kv_columns, a, layer, top, sliced, copies] = s;
  const int64_t all = L * layer + top, head_dim = z.config.attention().head_dim;
  const int64_t always = 4 * (z.config.max_position_embeddings * head_dim + 2 * N * z.micro_batches);  // RoPE; ids and labels
  std::vector<Moment> moments;
  // Activations and buffers in bytes, gradients in elements.
  const auto add = [&](const std::string& name, int64_t at, int64_t activations, int64_t buffers, int64_t top_gradients,
                       int64_t layer_gradients, int64_t done) {
    const int64_t gradients = z.micro_batches > 1 ? all : top_gradients + layer_gradients + done * layer;
    Moment m{at < 0 ? name : cat(name, ", layer ", at), at, {}, 4 * top_gradients, 4 * layer_gradients, done, buffers};
    m.bytes[MemoryClass::Parameters] = (z.type == DType::F32 ? 4 : 4 + a) * all;
    m.bytes[MemoryClass::Gradients] = 4 * gradients;
    m.bytes[MemoryClass::Optimizer] = 8 * all;
    m.bytes[MemoryClass::Activations] = activations;
    m.bytes[MemoryClass::Buffers] = always + buffers;
    moments.push_back(m);
  };

  const int64_t one_layer = z.recompute ? a * n * E : kept(s);  // what a layer that waits for its backward keeps
  // Ids, layers, last norm, the head's input.
  const int64_t before_loss = 4 * N + L * one_layer + a * n * E + 4 * n + a * N * E;
  if (z.p > 1 && !z.loss_parallel)
    add("the logits gathered", -1, before_loss + a * N * (v + V), N > 1 ? a * N * V : 0, 0, 0, 0);
  else
    add("the loss", -1, before_loss + a * N * v + 4 * 4 * N, 0, 0, 0, 0);  // logits; largest, sum, target's logit, target
  add("backward of the head", -1, before_loss + a * N * (v + E), 0, v * E, 0, 0);

  const int64_t message = z.p > 1 ? a * N * E : 0, head = v * E + E;
  const Scratch& scratch = scratch_of(z.device);
  const shapes::AttentionSizes of_attention = {.B = z.B, .S = S, .T = S, .H = h, .K = kv / head_dim, .D = head_dim};
  const int64_t of_scores = scratch.attention_backward(of_attention, z.type), of_norm = scratch.rms_norm_backward(n, E);
  add("backward of the last norm", -1, 4 * N + L * one_layer + 3 * a * n * E + 4 * n, of_norm, head, 0, 0);
  for (int64_t l = L - 1; l >= 0; --l) {
    const int64_t done = L - 1 - l;
    const int64_t base = 4 * N + l * one_layer + kept(s) + a * n * E;  // with the gradient that came
    if (sliced) add("the gradient gathered for the MLP", l, base + a * N * E, message, head, 0, done);
    add("backward of gate", l, base + a * N * (2 * i + E), 0, head, 2 * E * i, done);
    add("backward of up", l, base + a * N * (i + 2 * E), 0, head, 3 * E * i, done);
    const int64_t attention = base - a * N * (3 * i + E) - 4 * n, mlp = 3 * E * i + E;
    add("backward of the MLP's norm", l, attention + 2 * a * n * E + 4 * n, of_norm, head, mlp, done);
    if (copies)
      add("the gradient gathered for the attention", l, attention + a * N * (q + q_columns), a * N * q, head, mlp + E * q_columns,
          done);
    add("backward of the attention's scores", l, attention + a * N * (2 * q + 2 * kv - (copies ? q_columns : 0)), of_scores,
        head, mlp + E * q_columns, done);
    add("backward of q, k, v", l,
        attention + a * N * (q + kv + (copies ? kv_columns - q_columns : kv) + 2 * E), 0, head,
        mlp + E * (2 * q_columns + kv_columns), done);
    add("backward of the attention's norm", l, 4 * N + l * one_layer + 5 * a * n * E + 4 * n, of_norm, head, layer, done);
  }
  add("backward of the embedding", -1, 4 * N + a * (n * E + (sliced ? N * E : 0)), 0, top, 0, L);
  add("the last sums", -1, 0, z.p > 1 && z.plan != PlanKind::Basic ? 4 * (2 * L + 1) * z.norm_size : 0, top, 0, L);
  moments.back().last_sums = true;
  return moments;
}

BytesByClass highest_of(const std::vector<Moment>& moments) {
  BytesByClass highest;
  for (const Moment& m : moments)
    for (const MemoryClass c : all_memory_classes) highest[c] = std::max(highest[c], m.bytes[c]);
  return highest;
}

const Moment& peak_of(const std::vector<Moment>& moments) {
  return *std::max_element(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.bytes.total() < b.bytes.total();
  });
}

std::string memory_differs(const MemoryUse& measured, const std::vector<Moment>& moments, double within) {
  const auto far = [&](double seen, double formula) { return std::abs(seen - formula) > within * seen; };
  const BytesByClass highest = highest_of(moments);
  for (const MemoryClass c : all_memory_classes)
    if (far(measured.peak_of[c], highest[c]))
      return cat(name_of(c), ": ", measured.peak_of[c], " bytes, by formula ", highest[c]);
  const int64_t peak = peak_of(moments).bytes.total();
  return far(measured.peak, peak) ? cat("all: ", measured.peak, " bytes, by formula ", peak) : "";
}

void show_memory(std::ostream& out, const MemoryUse& measured, const std::vector<Moment>& moments) {
  const BytesByClass highest = highest_of(moments);
  const Moment& peak = peak_of(moments);
  Table table({"bytes held in one step, one rank", "|", "highest", "by formula", "|", "at the peak", "by formula"});
  for (const MemoryClass c : all_memory_classes)
    table.row(name_of(c), group_digits(measured.peak_of[c]), group_digits(highest[c]), group_digits(measured.at_peak[c]),
              group_digits(peak.bytes[c]));
  table.row("all", "", "", group_digits(measured.peak), group_digits(peak.bytes.total()));
  out << table.str() << "the peak, by formula: " << peak.name << "\n";
  const std::string differs = memory_differs(measured, moments);
  if (!differs.empty()) out << "more than a tenth from the formula: " << differs << "\n";
  out << std::endl;
}

}  // namespace course
