// The plans of the course for a Llama, as data.
//
//   basic      heads and MLP split, norms whole on every rank         a layer: 2 all-reduces forward, 2 backward
//   sequence   the same, and a slice of the sequence between them     2 all-gathers + 2 reduce-scatters, both ways
//   article    the article's: q, k, v gathered, attention whole on    5 AG + 2 RS forward, 3 AG + 2 RS backward
//              every rank, sequence parallel around
//
// Heads are split by key/value group, unevenly if need be. The residual stream keeps its layout in `sequence` and
// `article`, so sequences that do not divide work too.
#pragma once

#include "chapters/06_sharded_attention/attention.hpp"
#include "chapters/08_parallel_plan/parallel_plan.hpp"

namespace course {

enum class PlanKind { Basic, Sequence, Article };

PlanKind plan_kind(const std::string& name);  // throws UsageError with the names there are
const char* name_of(PlanKind kind);

// For one DecoderLayer: paths below it.
ParallelPlan layer_plan(PlanKind kind, const AttentionSizes& sizes);
// For what stands around the layers of a Llama: embedding, last norm, head. The logits come whole on every rank, or,
// with loss_parallel, cut by vocabulary with their layout (chapter 11).
ParallelPlan top_plan(PlanKind kind, bool loss_parallel);
// Both: the layer plan under "model.layers.*.", then the top plan.
ParallelPlan llama_plan(PlanKind kind, const AttentionSizes& sizes, bool loss_parallel);

}  // namespace course
