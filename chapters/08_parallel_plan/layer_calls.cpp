#include "chapters/08_parallel_plan/layer_calls.hpp"

namespace course {

std::string show(const Calls& calls) {
  std::string text;
  const auto add = [&](int64_t count, const char* name) {
    if (count > 0) text += cat(text.empty() ? "" : " + ", count, " ", name);
  };
  add(calls.gathers, "AG");
  add(calls.scatters, "RS");
  add(calls.reduces, "AR");
  return text.empty() ? "-" : text;
}

Calls counted(const Traffic& traffic) {
  return {traffic.count(Op::AllGather), traffic.count(Op::ReduceScatter), traffic.count(Op::AllReduce)};
}

LayerCalls calls_of(PlanKind plan) {
  switch (plan) {
    case PlanKind::Basic:
      return {{0, 0, 2}, {0, 0, 2}};
    case PlanKind::Sequence:
      return {{2, 2, 0}, {2, 2, 0}};
    case PlanKind::Article:
      return {{5, 2, 0}, {3, 2, 0}};
  }
  fail("no such plan");
}

LayerCalls pytorch_calls_of(PlanKind plan) {
  switch (plan) {
    case PlanKind::Basic:
      return {{0, 0, 2}, {0, 0, 5}};
    case PlanKind::Sequence:
      return {{2, 2, 0}, {2, 2, 0}};
    case PlanKind::Article:
      return {{5, 2, 0}, {3, 2, 0}};
  }
  fail("no such plan");
}

LayerCost cost_of(PlanKind plan, const AttentionSizes& sizes, int64_t batch, int64_t sequence, int ranks) {
  const auto bytes = [&](int64_t features) { return 4.0 * batch * sequence * features; };
  const double x = bytes(sizes.hidden);
  const Cost reduce = all_reduce_cost(x, ranks), half = gather_cost(x, ranks);
  const Cost q = gather_cost(bytes(sizes.heads * sizes.head_dim), ranks);
  const Cost kv = gather_cost(bytes(sizes.kv_heads * sizes.head_dim), ranks);
  switch (plan) {
    case PlanKind::Basic:
      return {reduce * 2, reduce * 2};
    case PlanKind::Sequence:
      return {half * 4, half * 4};
    // Forward q, k and v are gathered; backward the gradient of the heads' output is, which is as large as q.
    case PlanKind::Article:
      return {half * 4 + q + kv * 2, half * 4 + q};
  }
  fail("no such plan");
}

}  // namespace course
