// 06 sharded_attention: heads work alone, so each rank takes some; and as the article does it, all heads on every rank.
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/06_sharded_attention/demonstrations.hpp"
#include "common/support/cli.hpp"

namespace course {
namespace {

constexpr uint64_t kSeed = 6;  // weights depend on (seed, name, place) alone: every cut of a module holds the same ones

void sharded_attention(Session& session) {
  int64_t B = 2, S = 10, positions = 2048;
  AttentionSizes sizes = {48, 12, 3, 4};
  Cli cli("06_sharded_attention", "attention cut between its heads, and as the article does it");
  cli.add("--batch", B, "sequences").positive();
  cli.add("--seq", S, "tokens a sequence").positive();
  cli.add("--hidden", sizes.hidden, "features of x and y").positive();
  cli.add("--heads", sizes.heads, "query heads").positive();
  cli.add("--kv-heads", sizes.kv_heads, "key/value heads").positive();
  cli.add("--head-dim", sizes.head_dim, "elements of a head").positive();
  cli.add("--positions", positions, "positions of the RoPE table").positive();
  cli.parse(session);
  require_usage(sizes.heads % sizes.kv_heads == 0, "--heads ", sizes.heads, " is not a multiple of --kv-heads ",
                sizes.kv_heads);
  require_usage(sizes.head_dim % 2 == 0, "--head-dim ", sizes.head_dim, ": RoPE turns pairs, it must be even");
  require_usage(S <= positions, "--seq ", S, ": the positions end at ", positions);
  // Every rank has a serial twin: x, the queries, the weights of q and o; and a table of angles.
  const double query = 1.0 * sizes.heads * sizes.head_dim, width = 1.0 * sizes.hidden;
  require_room(
      session,
      4.0 * session.size() * (1.0 * B * S * (width + query) + 2 * width * query + 1.0 * positions * sizes.head_dim),
      cat("--batch ", B, " --seq ", S, " --hidden ", sizes.hidden, " --heads ", sizes.heads, " --head-dim ",
          sizes.head_dim, " --positions ", positions));

  Traffic traffic;
  Recorder world(session.world(), traffic);
  Backend& backend = session.backend();
  const DeviceMesh tp(world, backend, {{"tp", world.size()}});
  const int P = world.size();
  const int64_t E = sizes.hidden, HD = sizes.heads * sizes.head_dim, KD = sizes.kv_heads * sizes.head_dim;

  // Sequence b ends after S - 4b tokens, down to one; what follows is padding.
  std::vector<int32_t> counts(B * S);
  for (int64_t i = 0; i < B * S; ++i) counts[i] = i % S < std::max<int64_t>(1, S - 4 * (i / S));
  const Tensor attend = backend.from_host(counts, {B, S});
  const auto context = std::make_shared<SequenceContext>();
  context->attend = &attend;
  const auto rope = std::make_shared<const RopeTable>(backend, positions, sizes.head_dim);

  const auto attention = [&] { return std::make_unique<Attention>(backend, sizes, rope, context); };
  // The projections in these styles; k and v alike.
  const auto cut = [&](const ColwiseParallel& q, const ColwiseParallel& kv, const RowwiseParallel& o) {
    auto whole = attention();
    q.apply(whole->q_proj, tp);
    kv.apply(whole->k_proj, tp);
    kv.apply(whole->v_proj, tp);
    o.apply(whole->o_proj, tp);
    initialize(*whole, kSeed);
    return whole;
  };
  const ColwiseParallel q_heads = ColwiseParallel().block(sizes.query_block());
  const ColwiseParallel kv_heads = ColwiseParallel().block(sizes.kv_block());
  const RowwiseParallel o_heads = RowwiseParallel().block(sizes.query_block());
  const ColwiseParallel gathered = ColwiseParallel().output(Replicate());

  const auto serial = attention();
  initialize(*serial, kSeed);

  session.out() << "x " << show({B, S, E}) << ", " << sizes.heads << " query heads, " << sizes.kv_heads
                << " key/value heads of " << sizes.head_dim << ", on " << P << (P == 1 ? " rank\n\n" : " ranks\n\n");
  session.out() << "1. RoPE turns element i with element i + 2 of a head of 4\n\n";
  show_rope(session);
  session.out() << "2. Who holds which heads, and so which rows of q, k, v and which columns of o\n\n";
  show_heads(session, sizes, P);
  session.out() << holdings(tp, *cut(q_heads, kv_heads, o_heads)) << "\n";

  session.out()
      << "3. Every way beside the serial module: y, dx, each gradient; differences in parts of the largest number\n\n";
  const double x = 4.0 * B * S * E, q = 4.0 * B * S * HD, kv = 4.0 * B * S * KD;  // bytes of the whole
  const Cost reduce = all_reduce_cost(x, P), half = gather_cost(x, P);
  Comparison compare(tp, traffic, {B, S, E});
  compare.run("heads, x plain", *serial, *cut(q_heads, kv_heads, o_heads), Entrance::Whole, reduce, reduce * 3);
  compare.run("heads, x shared", *serial, *cut(q_heads, kv_heads, o_heads), Entrance::Shared, reduce, reduce);
  compare.run("heads, x and y in slices", *serial, *cut(q_heads, kv_heads, RowwiseParallel(o_heads).output(Shard(1))),
              Entrance::Sliced, half * 2, half * 2);
  compare.run("article, x shared", *serial, *cut(gathered, gathered, RowwiseParallel().input(Replicate())),
              Entrance::Shared, gather_cost(q, P) + gather_cost(kv, P) * 2 + reduce, gather_cost(q, P) + reduce);

  const Tensor y = serial->forward(backend.clone(compare.x())).take(backend);
  const auto sharded = cut(q_heads, kv_heads, o_heads);
  traffic.clear();
  const Tensor cached = token_by_token(*sharded, *context, compare.x());
  compare.add("heads, token by token", cached, y, all_reduce_cost(x / S, P) * S);
  session.out() << compare.str() << "\n";
  compare.check();

  const auto values = backend.to_host(y);
  float hidden = 0;
  for (int64_t i = 0; i < B * S * E; ++i)
    if (!counts[i / E]) hidden = std::max(hidden, std::abs(values[i]));
  session.out() << "The padding sees nothing: the largest |y| there is " << hidden << ".\n\n";
  require_shared(hidden == 0, "y is not 0 where there is padding");

  session.out() << "4. Memory of one sequence, on one rank with all heads\n\n";
  show_memory(session, sizes);
  session.out() << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::sharded_attention); }
