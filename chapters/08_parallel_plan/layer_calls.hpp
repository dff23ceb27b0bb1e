// What one decoder layer sends under each plan: the calls of the table, the bytes by formula, and PyTorch's calls
// beside them.
#pragma once

#include "chapters/05_sharded_mlp/comparison.hpp"
#include "chapters/08_parallel_plan/layer_plan.hpp"

namespace course {

// Of one direction. Prints as "5 AG + 2 RS": all-gathers, reduce-scatters, all-reduces.
struct Calls {
  int64_t gathers = 0, scatters = 0, reduces = 0;
  bool operator==(const Calls&) const = default;
};
struct LayerCalls {
  Calls forward, backward;
};

std::string show(const Calls& calls);  // "-" where there is none
Calls counted(const Traffic& traffic);

// A layer's, on two ranks or more. The sums of the norms' gradients are not among them: they are made once a step.
LayerCalls calls_of(PlanKind plan);
// PyTorch 2.13's for the same plan, counted with CommDebugMode (tests/golden/comm_counts.json): `basic` is its plain
// plan, which styles the Linears alone.
LayerCalls pytorch_calls_of(PlanKind plan);

struct LayerCost {
  Cost forward, backward;
};
// The same in calls and bytes a rank, for x [batch,sequence,hidden] on so many ranks.
LayerCost cost_of(PlanKind plan, const AttentionSizes& sizes, int64_t batch, int64_t sequence, int ranks);

}  // namespace course
