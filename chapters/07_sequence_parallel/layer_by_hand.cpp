#include "chapters/07_sequence_parallel/layer_by_hand.hpp"

#include "chapters/07_sequence_parallel/sequence_style.hpp"

namespace course {
namespace {

const Placement sliced = Shard(1), whole = Replicate(), terms = Partial();

void cut_heads(Attention& attention, const AttentionSizes& sizes, RowwiseParallel out, const DeviceMesh& tp) {
  // exercise slices {
  const ColwiseParallel q = ColwiseParallel().block(sizes.query_block()),
                        kv = ColwiseParallel().block(sizes.kv_block());
  q.apply(attention.q_proj, tp);
  kv.apply(attention.k_proj, tp);
  kv.apply(attention.v_proj, tp);
  out.block(sizes.query_block()).apply(attention.o_proj, tp);
  // } exercise
}

void cut_features(SwiGluMlp& mlp, const RowwiseParallel& out, const DeviceMesh& tp) {
  ColwiseParallel().apply(mlp.gate_proj, tp);
  ColwiseParallel().apply(mlp.up_proj, tp);
  out.apply(mlp.down_proj, tp);
}

void slice_norms(DecoderLayer& layer, const DeviceMesh& tp) {
  SequenceParallel().apply(layer.input_layernorm, tp);
  SequenceParallel().apply(layer.post_attention_layernorm, tp);
}

}  // namespace

void style_whole(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp) {
  const PrepareModuleInput into(whole, whole);
  const RowwiseParallel out;
  into.apply(layer.self_attn, tp);
  cut_heads(layer.self_attn, sizes, out, tp);
  into.apply(layer.mlp, tp);
  cut_features(layer.mlp, out, tp);
}

void style_slices(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp) {
  // exercise slices {
  const PrepareModuleInput into(sliced, whole);
  const RowwiseParallel out = RowwiseParallel().output(sliced).use_local_output(false);
  slice_norms(layer, tp);
  into.apply(layer.self_attn, tp);
  cut_heads(layer.self_attn, sizes, out, tp);
  into.apply(layer.mlp, tp);
  cut_features(layer.mlp, out, tp);
  // } exercise
}

void style_slices_at_blocks(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp) {
  const PrepareModuleInputOutput around =
      PrepareModuleInputOutput(sliced, whole, terms, sliced).use_local_output(false);
  const RowwiseParallel out = RowwiseParallel().output(terms).use_local_output(false);
  slice_norms(layer, tp);
  around.apply(layer.self_attn, tp);
  cut_heads(layer.self_attn, sizes, out, tp);
  around.apply(layer.mlp, tp);
  cut_features(layer.mlp, out, tp);
}

}  // namespace course

// Exercise 07 slices
// Task: Style a decoder layer so that its stream is cut along the sequence: each rank keeps its positions between the
// blocks, and every rank sees all of them inside. cut_heads says how attention is cut by heads, style_slices how the
// layer is put together. Two all-gathers and two reduce-scatters each way, and no more. cut_features and slice_norms
// are there already.
// Hint: heads stay whole, and query heads with the key/value head they read: block() of ColwiseParallel and
// RowwiseParallel.
// Hint: into a block the slices are gathered once for q, k and v (gate and up), by PrepareModuleInput on the block.
// Hint: out of a block the terms are added and cut in one: RowwiseParallel().output(Shard(1)). The stream keeps its
// layout.
// Why: An all-reduce is a reduce-scatter and an all-gather. Cut between the two, each rank does the norms and sums of
// its own positions alone, keeps a P-th of the stream, and sends as many bytes as before.
// Wrong gathered_in_each: Right, and it gathers twice for gate and up, and sends their gradients twice: the MLP has no
// PrepareModuleInput, so each projection takes the slices itself.
//   - into.apply(layer.mlp, tp);
//   - cut_features(layer.mlp, out, tp);
//   + ColwiseParallel().input(sliced).apply(layer.mlp.gate_proj, tp);
//   + ColwiseParallel().input(sliced).apply(layer.mlp.up_proj, tp);
//   + out.apply(layer.mlp.down_proj, tp);
// Wrong out_whole: What leaves a block is whole on every rank, but the stream that it is added to is cut:
// RowwiseParallel's output must be Shard(1).
//   - const RowwiseParallel out = RowwiseParallel().output(sliced).use_local_output(false);
//   + const RowwiseParallel out = RowwiseParallel().output(whole).use_local_output(false);
// Wrong layout_lost: The block's output has lost its layout, so nobody knows any more that it is a slice:
// use_local_output(false).
//   - const RowwiseParallel out = RowwiseParallel().output(sliced).use_local_output(false);
//   + const RowwiseParallel out = RowwiseParallel().output(sliced);
// Wrong norms_unstyled: The norms have no style. Each rank's weight gradient is then of its own rows alone, and nobody
// adds them up: SequenceParallel says that it is Partial.
//   - slice_norms(layer, tp);
// Wrong heads_torn: q is cut in any column, and not between the groups that share a key/value head: block().
//   - const ColwiseParallel q = ColwiseParallel().block(sizes.query_block()),
//   -                       kv = ColwiseParallel().block(sizes.kv_block());
//   + const ColwiseParallel q, kv;
// Wrong one_block_for_all: k and v are cut by the block of q. They have fewer heads: a block of theirs is one head, D
// rows.
//   - const ColwiseParallel q = ColwiseParallel().block(sizes.query_block()),
//   -                       kv = ColwiseParallel().block(sizes.kv_block());
//   + const ColwiseParallel q = ColwiseParallel().block(sizes.query_block()), kv = q;
