// 05 sharded_mlp: two matmuls with an activation in between, cut by columns, then by rows: one all-reduce for both.
#include <iomanip>

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/05_sharded_mlp/comparison.hpp"
#include "chapters/05_sharded_mlp/mlp.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

constexpr uint64_t kSeed = 5;  // weights depend on (seed, name, place) alone: every cut of a module holds the same ones

// What each rank has before the all-reduce, at the first place of y, and what it should be.
void show_terms(Session& session, const DeviceMesh& tp, Module& serial, Module& terms, const Tensor& x) {
  const auto first = [&](Module& module) {
    return tp.backend().to_host(module.forward(tp.backend().clone(x)).take(tp.backend())).front();
  };
  const float term = first(terms);
  std::string sum;
  for (const auto& text : tp.comm().all_gather_text(cat(std::fixed, std::setprecision(4), std::showpos, term)))
    sum += " " + text;
  session.out() << std::fixed << std::setprecision(4) << "  y[0,0,0] by one rank: " << first(serial)
                << "\n  what each rank has alone:" << sum << "\n  their sum: " << tp.comm().sum(term) << "\n\n"
                << std::defaultfloat;
}

void sharded_mlp(Session& session) {
  int64_t B = 2, S = 5, E = 8, I = 20;
  Cli cli("05_sharded_mlp", "an MLP cut by columns, then by rows: one all-reduce for two matmuls");
  cli.add("--batch", B, "sequences").positive();
  cli.add("--seq", S, "tokens a sequence").positive();
  cli.add("--hidden", E, "features of x and y").positive();
  cli.add("--intermediate", I, "features between the two matmuls").positive();
  cli.parse(session);
  // Every rank has a serial twin: x, what lies in between, and both weights.
  require_room(session, 4.0 * session.size() * (1.0 * B * S * (1.0 * E + I) + 2.0 * E * I),
               cat("--batch ", B, " --seq ", S, " --hidden ", E, " --intermediate ", I));

  Traffic traffic;
  Recorder world(session.world(), traffic);
  Backend& backend = session.backend();
  const DeviceMesh tp(world, backend, {{"tp", world.size()}});
  const int P = world.size();

  const auto gelu = [&](Gelu kind) { return std::make_unique<GeluMlp>(backend, E, I, kind); };
  // An MLP with fc1 and fc2 in these styles.
  const auto cut_gelu = [&](Gelu kind, const ParallelStyle& fc1, const ParallelStyle& fc2) {
    auto mlp = gelu(kind);
    fc1.apply(mlp->fc1, tp);
    fc2.apply(mlp->fc2, tp);
    initialize(*mlp, kSeed);
    return mlp;
  };
  const auto cut_swiglu = [&](const ParallelStyle& down) {
    auto mlp = std::make_unique<SwiGluMlp>(backend, E, I);
    ColwiseParallel().apply(mlp->gate_proj, tp);
    ColwiseParallel().apply(mlp->up_proj, tp);
    down.apply(mlp->down_proj, tp);
    initialize(*mlp, kSeed);
    return mlp;
  };
  const ColwiseParallel column;
  const RowwiseParallel row;
  const RowwiseParallel row_scattered = RowwiseParallel().output(Shard(1));

  const auto serial = gelu(Gelu::Exact), serial_tanh = gelu(Gelu::Tanh);
  initialize(*serial, kSeed), initialize(*serial_tanh, kSeed);
  SwiGluMlp serial_swiglu(backend, E, I);
  initialize(serial_swiglu, kSeed);
  Comparison compare(tp, traffic, {B, S, E});

  session.out() << "x " << show({B, S, E}) << ", " << I << " features in between, y " << show({B, S, E}) << ", on " << P
                << (P == 1 ? " rank\n\n" : " ranks\n\n");
  session.out() << "1. Who holds what: fc1 cut by its outputs, fc2 by the inputs that meet them\n\n"
                << holdings(tp, *cut_gelu(Gelu::Exact, column, row)) << idle_ranks(I, P, "features") << "\n";
  session.out() << "   and of SwiGLU: gate and up are each cut, so that a rank holds the same features of both\n\n"
                << holdings(tp, *cut_swiglu(row)) << "\n";

  session.out() << "2. What a rank has alone\n\n";
  show_terms(session, tp, *serial, *cut_gelu(Gelu::Exact, column, RowwiseParallel().output(Partial())), compare.x());

  session.out()
      << "3. Every way beside the serial module: y, dx, each gradient; differences in parts of the largest number\n\n";
  const double outer = 4.0 * B * S * E, inner = 4.0 * B * S * I;  // bytes of x and y; of what lies between
  const Cost reduce = all_reduce_cost(outer, P), half = gather_cost(outer, P);
  compare.run("GeLU (erf), column-row", *serial, *cut_gelu(Gelu::Exact, column, row), Entrance::Whole, reduce, reduce);
  compare.run("GeLU (tanh), column-row", *serial_tanh, *cut_gelu(Gelu::Tanh, column, row), Entrance::Whole, reduce,
              reduce);
  compare.run("GeLU, x and y in slices", *serial_tanh, *cut_gelu(Gelu::Tanh, column, row_scattered), Entrance::Sliced,
              half * 2, half * 2);
  compare.run("GeLU, row-column", *serial,
              *cut_gelu(Gelu::Exact, RowwiseParallel().input(Replicate()), ColwiseParallel().output(Replicate())),
              Entrance::Whole, all_reduce_cost(inner, P) + half, all_reduce_cost(inner, P) + half);
  compare.run("SwiGLU, x plain", serial_swiglu, *cut_swiglu(row), Entrance::Whole, reduce, reduce * 2);
  compare.run("SwiGLU, x shared", serial_swiglu, *cut_swiglu(row), Entrance::Shared, reduce, reduce);
  compare.run("SwiGLU, x and y in slices", serial_swiglu, *cut_swiglu(row_scattered), Entrance::Sliced, half * 2,
              half * 2);
  session.out() << compare.str() << "\n";
  compare.check();
  session.out() << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::sharded_mlp); }
