// A decoder layer cut over tensor-parallel ranks by hand: apply() on one module after the other. Chapter 08 writes the
// same down as data.
//
//              the stream x, y   norms                      into a block    out of it
//   whole      R, plain          all rows on every rank     nothing (f)     all-reduce (g)
//   slices     S(1), a DTensor   each rank its positions    all-gather      reduce-scatter
//
// Heads are cut between key/value heads, the MLP's features by torch.chunk. Before the parameters are filled; no
// communication.
#pragma once

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/07_sequence_parallel/decoder_layer.hpp"

namespace course {

void style_whole(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp);
void style_slices(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp);
// The same as slices, said at other places: o_proj and down_proj hand on the terms of their sums, and a
// PrepareModuleInputOutput on each block does both redistributions.
void style_slices_at_blocks(DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp);

}  // namespace course
