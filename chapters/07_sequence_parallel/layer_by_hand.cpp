#include "chapters/07_sequence_parallel/layer_by_hand.hpp"

#include "chapters/07_sequence_parallel/sequence_style.hpp"

namespace course {
namespace {

const Placement sliced = Shard(1), whole = Replicate(), terms = Partial();

void cut_heads(Attention& attention, const AttentionSizes& sizes, RowwiseParallel out, const DeviceMesh& tp) {
  const ColwiseParallel q = ColwiseParallel().block(sizes.query_block()),
                        kv = ColwiseParallel().block(sizes.kv_block());
  q.apply(attention.q_proj, tp);
  kv.apply(attention.k_proj, tp);
  kv.apply(attention.v_proj, tp);
  out.block(sizes.query_block()).apply(attention.o_proj, tp);
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
  const PrepareModuleInput into(sliced, whole);
  const RowwiseParallel out = RowwiseParallel().output(sliced).use_local_output(false);
  slice_norms(layer, tp);
  into.apply(layer.self_attn, tp);
  cut_heads(layer.self_attn, sizes, out, tp);
  into.apply(layer.mlp, tp);
  cut_features(layer.mlp, out, tp);
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
