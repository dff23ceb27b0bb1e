// 08 parallel_plan: which module gets which style, as data. One decoder layer under a plan, beside its serial self.
#include <algorithm>
#include <iomanip>

#include "chapters/07_sequence_parallel/decoder_layer.hpp"
#include "chapters/07_sequence_parallel/layer_flags.hpp"
#include "chapters/07_sequence_parallel/stream_comparison.hpp"
#include "chapters/08_parallel_plan/layer_calls.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

constexpr uint64_t kSeed = 8;

struct Flags : LayerFlags {
  std::string plan = "sequence";
};

Flags read_flags(Session& session) {
  Flags z{{8, 64, 192, {64, 4, 4, 16}}};
  Cli cli("08_parallel_plan", "a decoder layer under a plan; its tree, and what it sends");
  cli.add("--plan", z.plan, "how the layer is cut").one_of({"basic", "sequence", "article"});
  z.add_to(cli);
  cli.parse(session);
  z.settle(session);
  return z;
}

// The parameters of which some ranks hold more than others.
void show_uneven(Session& session, const DeviceMesh& tp, Module& layer) {
  std::vector<std::string> header = {"not alike on all ranks"};
  for (int64_t r = 0; r < tp.size(); ++r) header.push_back(cat("rank ", r));
  Table table(header);
  bool some = false;
  for (const Parameter* p : parameters_of(layer)) {
    std::vector<std::string> row = tp.comm().all_gather_text(show(p->box().size));
    if (std::all_of(row.begin(), row.end(), [&](const auto& shape) { return shape == row.front(); })) continue;
    row.insert(row.begin(), p->name());
    table.add(row);
    some = true;
  }
  if (some) session.out() << table.str() << "\n";
}

void parallel_plan(Session& session) {
  const Flags z = read_flags(session);
  const AttentionSizes& sizes = z.attention;
  const PlanKind kind = plan_kind(z.plan);
  Traffic traffic;
  Recorder world(session.world(), traffic);
  Backend& backend = session.backend();
  const DeviceMesh mesh(world, backend, {{"tp", world.size()}});
  const int P = world.size();
  const Shape shape = {z.B, z.S, sizes.hidden};
  std::ostream& out = session.out();

  const auto rope = std::make_shared<const RopeTable>(backend, z.S, sizes.head_dim);
  const auto context = std::make_shared<const SequenceContext>();
  DecoderLayer serial(backend, sizes, z.I, 1e-5, rope, context), layer(backend, sizes, z.I, 1e-5, rope, context);
  const ParallelPlan plan = layer_plan(kind, sizes);
  parallelize_module(layer, mesh["tp"], plan);
  check_plan(layer, mesh["tp"], plan);
  initialize(serial, kSeed), initialize(layer, kSeed);

  out << "1. The plan `" << z.plan << "`: for a layer, and for what stands around the layers of a Llama\n\n"
      << show_plan(plan) << "\n"
      << show_plan(top_plan(kind, false)) << "\n"
      << "2. The layer as rank 0 of " << P << " has it: style; placement, whole → here\n\n"
      << show_tree(layer, "tp") << "\n";
  show_uneven(session, mesh, layer);
  std::string idle = idle_ranks(z.I, P, "features of the MLP");
  if (kind != PlanKind::Article) idle += idle_ranks(sizes.kv_heads, P, "key/value heads");
  if (kind != PlanKind::Basic) idle += idle_ranks(z.S, P, "positions");
  out << (idle.empty() ? "" : idle + "\n");

  out << "3. x " << show(shape) << " through both: y, dx, and each gradient of a weight\n\n";
  StreamComparison compare(mesh, traffic, serial, shape);
  const StreamRun run = compare.run(layer, kind == PlanKind::Basic ? Placement(Replicate()) : Shard(1));
  out << "largest difference from the serial layer: " << std::setprecision(2) << run.difference
      << " of 1\nkept for backward by rank 0: " << group_digits(run.kept) << " bytes\n\n";

  const LayerCalls table = P > 1 ? calls_of(kind) : LayerCalls{}, theirs = pytorch_calls_of(kind);
  Table calls({"calls a layer", "|", "measured", "the table", "|", "PyTorch, from 2 ranks on"});
  calls.row("forward", show(counted(run.forward)), show(table.forward), show(theirs.forward));
  calls.row("backward", show(counted(run.backward)), show(table.backward), show(theirs.backward));
  out << calls.str() << "\n";

  SentTable sent;
  const LayerCost cost = cost_of(kind, sizes, z.B, z.S, P);
  const Cost norms = kind == PlanKind::Basic ? Cost{} : all_reduce_cost(4.0 * sizes.hidden, P) * 2;
  sent.add("forward", run.forward.total(), cost.forward.calls, cost.forward.bytes);
  sent.add("backward", run.backward.total(), cost.backward.calls, cost.backward.bytes);
  sent.add("norm weights, once a step", run.gradients.total(), norms.calls, norms.bytes);
  out << sent.str() << "\n";
  sent.check(world);
  together(world, [&] {
    require(counted(run.forward) == table.forward && counted(run.backward) == table.backward,
            "the layer calls other than the table says");
  });
  require_shared(run.difference <= 1e-5, "the layer differs from its serial self by ", run.difference, " of 1");
  out << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::parallel_plan); }
