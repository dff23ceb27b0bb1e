#include "chapters/10_tensor_parallel_training/step_traffic.hpp"

#include <cmath>
#include <map>

#include "chapters/05_sharded_mlp/comparison.hpp"
#include "common/support/table.hpp"

namespace course {

std::vector<ExpectedSent> tensor_parallel_traffic(const LlamaConfig& c, PlanKind plan, bool loss_parallel, int64_t B, int64_t S,
                                                  int64_t p, int64_t micro_batches, int64_t norm_size, bool recompute,
                                                  DType type) {
  if (p == 1) return {};
  const auto [E, H, K, D] = c.attention();
  const int64_t L = c.num_hidden_layers, V = c.vocab_size, m = micro_batches, again = recompute ? 1 : 0;
  const double tokens = static_cast<double>(B * S), token = tokens * static_cast<double>(size_of(type)),
               hidden = token * E, query = token * H * D, key = token * K * D;
  std::vector<ExpectedSent> all;
  const auto add = [&](Op op, int64_t calls, double bytes) { all.push_back({"tp", op, calls, ring_bytes(op, bytes, p) * calls}); };

  if (plan == PlanKind::Basic) {
    add(Op::AllReduce, m * ((4 + 2 * again) * L + 2), hidden);  // 2 + 2 a layer; embedding forward, head backward
  } else {
    const bool article = plan == PlanKind::Article;
    add(Op::ReduceScatter, m * ((4 + 2 * again) * L + 2), hidden);
    add(Op::AllGather, m * ((4 + 2 * again) * L + 2), hidden);
    if (article) add(Op::AllGather, m * (2 + again) * L, query);  // q forward; the gradient of attention's output backward
    if (article) add(Op::AllGather, m * (2 + 2 * again) * L, key);    // k, v forward
    add(Op::AllReduce, 1, 4.0 * static_cast<double>((2 * L + 1) * norm_size));  // the norms' gradients
  }
  if (loss_parallel)
    add(Op::AllReduce, m * 3, 4 * tokens);
  else
    add(Op::AllGather, m, token * V);
  return all;
}

void show_traffic(std::ostream& out, const Traffic& measured, const std::vector<ExpectedSent>& expected) {
  std::map<std::pair<std::string, Op>, Sent> formula;
  for (const auto& e : expected) formula[{e.axis, e.op}] += {e.calls, e.bytes, 0};
  auto keys = formula;
  for (const auto& [key, sent] : measured.all())
    if (key.first != "host") keys[key];

  Table table({"one step, one rank", "|", "calls", "bytes sent", "|", "calls", "by formula"});
  std::string wrong;
  for (const auto& [key, unused] : keys) {
    const Sent seen = measured.of(key.second, key.first), want = formula[key];
    table.row(cat(key.first, " ", name_of(key.second)), seen.calls, group_digits(std::llround(seen.bytes)), want.calls,
              group_digits(std::llround(want.bytes)));
    if (seen.calls != want.calls || std::abs(seen.bytes - want.bytes) > 0.5)
      wrong = cat(key.first, " ", name_of(key.second), ": ", seen.calls, " calls and ", seen.bytes, " bytes, by formula ",
                  want.calls, " and ", want.bytes);
  }
  out << "\n" << table.str() << std::endl;
  require(wrong.empty(), "sent is not what the formula says: ", wrong);
}

std::string idle_in_layers(const LlamaConfig& config, PlanKind plan, int64_t S, int64_t p) {
  const auto idle = [p](int64_t n, const char* what) { return idle_ranks(n, p, what, 1, "tp rank"); };
  std::string lines =
      idle(config.intermediate_size, "features of the MLP") + idle(config.vocab_size, "rows of the vocabulary");
  if (plan != PlanKind::Article) lines += idle(config.num_key_value_heads, "key/value heads");
  if (plan != PlanKind::Basic) lines += idle(S, "positions");
  return lines;
}

}  // namespace course
