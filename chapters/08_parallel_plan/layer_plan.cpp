#include "chapters/08_parallel_plan/layer_plan.hpp"

#include "chapters/07_sequence_parallel/sequence_style.hpp"

namespace course {
namespace {

constexpr struct {
  PlanKind kind;
  const char* name;
} kinds[] = {{PlanKind::Basic, "basic"}, {PlanKind::Sequence, "sequence"}, {PlanKind::Article, "article"}};

const Placement sliced = Shard(1), whole = Replicate();

ParallelPlan basic_layer(const AttentionSizes& sizes) {
  return {{"self_attn", PrepareModuleInput(whole, whole)},
          {"self_attn.q_proj", ColwiseParallel().block(sizes.query_block())},
          {"self_attn.[kv]_proj", ColwiseParallel().block(sizes.kv_block())},
          {"self_attn.o_proj", RowwiseParallel().block(sizes.query_block())},
          {"mlp", PrepareModuleInput(whole, whole)},
          {"mlp.gate_proj", ColwiseParallel()},
          {"mlp.up_proj", ColwiseParallel()},
          {"mlp.down_proj", RowwiseParallel()}};
}

ParallelPlan sequence_layer(const AttentionSizes& sizes) {
  // exercise plan {
  return {{"input_layernorm", SequenceParallel()},
          {"self_attn", PrepareModuleInput(sliced, whole)},
          {"self_attn.q_proj", ColwiseParallel().block(sizes.query_block())},
          {"self_attn.[kv]_proj", ColwiseParallel().block(sizes.kv_block())},
          {"self_attn.o_proj", RowwiseParallel().block(sizes.query_block()).output(sliced).use_local_output(false)},
          {"post_attention_layernorm", SequenceParallel()},
          {"mlp", PrepareModuleInput(sliced, whole)},
          {"mlp.gate_proj", ColwiseParallel()},
          {"mlp.up_proj", ColwiseParallel()},
          {"mlp.down_proj", RowwiseParallel().output(sliced).use_local_output(false)}};
  // } exercise
}

ParallelPlan article_layer() {
  return {{"input_layernorm", SequenceParallel()},
          {"self_attn", PrepareModuleInput(sliced, whole)},
          {"self_attn.[qkv]_proj", ColwiseParallel().output(whole)},
          {"self_attn.o_proj", RowwiseParallel().input(whole).output(sliced).use_local_output(false)},
          {"post_attention_layernorm", SequenceParallel()},
          {"mlp", PrepareModuleInput(sliced, whole)},
          {"mlp.gate_proj", ColwiseParallel()},
          {"mlp.up_proj", ColwiseParallel()},
          {"mlp.down_proj", RowwiseParallel().output(sliced).use_local_output(false)}};
}

}  // namespace

PlanKind plan_kind(const std::string& name) {
  std::string all;
  for (const auto& kind : kinds) {
    if (name == kind.name) return kind.kind;
    all += (all.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw UsageError(cat("--plan ", name, ": there are ", all));
}

const char* name_of(PlanKind wanted) {
  for (const auto& kind : kinds)
    if (kind.kind == wanted) return kind.name;
  fail("no such plan");
}

ParallelPlan layer_plan(PlanKind kind, const AttentionSizes& sizes) {
  check(sizes);
  switch (kind) {
    case PlanKind::Basic:
      return basic_layer(sizes);
    case PlanKind::Sequence:
      return sequence_layer(sizes);
    case PlanKind::Article:
      return article_layer();
  }
  fail("no such plan");
}

ParallelPlan top_plan(PlanKind kind, bool loss_parallel) {
  const auto head = [&](const Placement& input) {
    ColwiseParallel style = ColwiseParallel().input(input);
    return loss_parallel ? style.use_local_output(false) : style.output(whole);
  };
  if (kind == PlanKind::Basic)
    return {{"model.embed_tokens", RowwiseParallel().input(whole)}, {"lm_head", head(whole)}};
  return {{"model.embed_tokens", RowwiseParallel().input(whole).output(sliced).use_local_output(false)},
          {"model.norm", SequenceParallel()},
          {"lm_head", head(sliced)}};
}

ParallelPlan llama_plan(PlanKind kind, const AttentionSizes& sizes, bool loss_parallel) {
  ParallelPlan plan;
  for (const auto& entry : layer_plan(kind, sizes)) plan.emplace_back("model.layers.*." + entry.pattern, entry.style);
  for (const auto& entry : top_plan(kind, loss_parallel)) plan.push_back(entry);
  return plan;
}

}  // namespace course

// Exercise 08 plan
// Task: Write the plan `sequence` of a decoder layer as data: heads and MLP features cut, the stream cut along the
// sequence between them. Two all-gathers and two reduce-scatters forward, as many backward. `sliced` is Shard(1),
// `whole` is Replicate().
// Hint: it is chapter 07's style_slices, said as pairs of path and style.
// Hint: `[kv]` in a pattern stands for one of the two letters.
// Why: The model does not know that it is cut. Another plan is another list, which can be printed, compared, and
// checked before the first step.
// Wrong no_way_in_for_mlp: Nothing gathers the slices for the MLP: its projections get this rank's positions and are
// told that they are whole. PrepareModuleInput on mlp.
//   - {"mlp", PrepareModuleInput(sliced, whole)},
// Wrong one_norm: One of the norms has no style: its weight gradient is of this rank's positions alone, and nobody adds
// it up.
//   - {"post_attention_layernorm", SequenceParallel()},
// Wrong values_forgotten: v_proj has no style and stays whole on every rank, so each rank has all value heads for its
// own query heads.
//   - {"self_attn.[kv]_proj", ColwiseParallel().block(sizes.kv_block())},
//   + {"self_attn.k_proj", ColwiseParallel().block(sizes.kv_block())},
// Wrong block_of_queries: k and v are cut by the block of q. They have fewer heads: a block of theirs is one head, D
// rows.
//   - {"self_attn.[kv]_proj", ColwiseParallel().block(sizes.kv_block())},
//   + {"self_attn.[kv]_proj", ColwiseParallel().block(sizes.query_block())},
// Wrong columns_twice: down_proj is cut by columns, as gate and up are. What they make is cut by features, which
// down_proj's rows take: RowwiseParallel.
//   - {"mlp.down_proj", RowwiseParallel().output(sliced).use_local_output(false)}};
//   + {"mlp.down_proj", ColwiseParallel().output(sliced).use_local_output(false)}};
