// 07 sequence_parallel: between the blocks each rank holds some positions of the sequence. What was an all-reduce is
// now a reduce-scatter on the way out of a block and an all-gather on the way into the next: the same bytes, less
// memory.
#include <iomanip>
#include <utility>
#include <vector>

#include "chapters/05_sharded_mlp/comparison.hpp"
#include "chapters/07_sequence_parallel/demonstrations.hpp"
#include "chapters/07_sequence_parallel/layer_by_hand.hpp"
#include "chapters/07_sequence_parallel/layer_flags.hpp"
#include "chapters/07_sequence_parallel/stream_comparison.hpp"
#include "common/chunk.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

constexpr uint64_t kSeed = 7;

LayerFlags read_flags(Session& session) {
  LayerFlags z{2, 7, 44, {24, 6, 3, 4}};
  Cli cli("07_sequence_parallel", "norms and residuals on a slice of the sequence; an all-reduce in two halves");
  z.add_to(cli);
  cli.parse(session);
  z.settle(session);
  return z;
}

// Bytes that this rank keeps for backward: between the blocks, where it has s positions, and inside them, where it has
// all.
int64_t kept_between(const LayerFlags& z, int64_t s) {
  return 4 * 2 * z.B * s * (z.attention.hidden + 1);  // a norm's input, and one number a row
}
int64_t kept_inside(const LayerFlags& z, const DeviceMesh& tp) {
  const auto [E, H, K, D] = z.attention;
  const int64_t k = chunk(K, tp.size(), tp.coordinate()).size, h = k * (H / K),
                i = chunk(z.I, tp.size(), tp.coordinate()).size;
  const int64_t token =
      2 * E + (2 * h + 2 * k) * D + h + 3 * i;  // both inputs; q, k, v, y; lse; gate, up, their product
  return 4 * (z.B * z.S * token + z.S);         // and the positions
}

// Bytes that a layer holds on this rank: its weights [out, in], gradients of the same shapes, what forward keeps, and
// the table of RoPE, a cosine and a sine for each position and pair of features.
BytesByClass held(const LayerFlags& z, const DeviceMesh& tp, int64_t s) {
  const auto [E, H, K, D] = z.attention;
  const int64_t k = chunk(K, tp.size(), tp.coordinate()).size, h = k * (H / K),
                i = chunk(z.I, tp.size(), tp.coordinate()).size;
  BytesByClass bytes;
  bytes[MemoryClass::Parameters] = 4 * E * (2 + (2 * h + 2 * k) * D + 3 * i);  // norms; q, o, k, v; gate, up, down
  bytes[MemoryClass::Gradients] = bytes[MemoryClass::Parameters];
  bytes[MemoryClass::Activations] = kept_between(z, s) + kept_inside(z, tp);
  bytes[MemoryClass::Buffers] = 4 * z.S * D;
  return bytes;
}

void sequence_parallel(Session& session) {
  const LayerFlags z = read_flags(session);
  const auto [B, S, I, sizes] = z;
  Traffic traffic;
  Recorder world(session.world(), traffic);
  Backend& backend = session.backend();
  const DeviceMesh tp(world, backend, {{"tp", world.size()}});
  const int P = world.size();
  const Shape shape = {B, S, sizes.hidden};
  SentTable sent;

  session.out() << "x " << show(shape) << " on " << P << (P == 1 ? " rank\n\n" : " ranks\n\n")
                << "1. An all-reduce in two halves\n\n";
  show_halves(session, tp, traffic, sent, shape);
  session.out() << "2. Between the blocks: who holds which positions of a sequence\n\n";
  show_slices(session, S, P);
  session.out() << "3. The gradient of a norm's weight, a sum over positions\n\n";
  show_norm_gradient(session, tp);

  const std::string idle = idle_ranks(sizes.kv_heads, P, "key/value heads") + idle_ranks(I, P, "features of the MLP");
  session.out() << "4. A decoder layer, by hand, beside its serial self: y, dx, and each gradient of a weight\n\n"
                << (idle.empty() ? "" : idle + "\n");
  const auto rope = std::make_shared<const RopeTable>(backend, S, sizes.head_dim);
  const auto make = [&](const auto& style) {
    auto layer =
        std::make_unique<DecoderLayer>(backend, sizes, I, 1e-5, rope, std::make_shared<const SequenceContext>());
    style(*layer, sizes, tp);
    initialize(*layer, kSeed);
    return layer;
  };
  const auto serial = make([](auto&&...) {});
  StreamComparison compare(tp, traffic, *serial, shape);
  Table differences({"largest difference from the serial layer", "of 1"});
  Table memory(
      {"kept for backward by rank 0", "|", "bytes: measured", "formula", "|", "between the blocks", "inside them"});
  Table classes({"held by rank 0, bytes", "|", "whole stream", "formula", "|", "slices", "formula"});
  std::vector<std::pair<BytesByClass, BytesByClass>> seen_and_formula;
  double largest = 0;
  const double n = 4.0 * B * S * sizes.hidden;  // bytes of the stream
  const auto run = [&](const std::string& name, const auto& style, const Placement& stream, const Cost& way,
                       const Cost& norms) {
    const auto bytes = [&](MemoryClass c) { return backend.memory_use().now_of[c]; };
    const int64_t other_parameters = bytes(MemoryClass::Parameters), other_gradients = bytes(MemoryClass::Gradients);
    const auto layer = make(style);
    const StreamRun seen = compare.run(*layer, stream);
    BytesByClass here;
    here[MemoryClass::Parameters] = bytes(MemoryClass::Parameters) - other_parameters;
    here[MemoryClass::Gradients] = bytes(MemoryClass::Gradients) - other_gradients;
    here[MemoryClass::Activations] = seen.kept;
    here[MemoryClass::Buffers] = bytes(MemoryClass::Buffers);
    differences.row(name, cat(std::setprecision(2), seen.difference));
    largest = std::max(largest, seen.difference);
    sent.add(name + ", forward", seen.forward.total(), way.calls, way.bytes);
    sent.add(name + ", backward", seen.backward.total(), way.calls, way.bytes);
    sent.add(name + ", norm weights", seen.gradients.total(), norms.calls, norms.bytes);
    const int64_t s = local_box(tp, {stream}, shape).size[1], between = kept_between(z, s), inside = kept_inside(z, tp);
    seen_and_formula.emplace_back(here, held(z, tp, s));
    memory.row(name, group_digits(seen.kept), group_digits(between + inside), group_digits(between),
               group_digits(inside));
  };
  const Cost reduce = all_reduce_cost(n, P), half = gather_cost(n, P), norm = all_reduce_cost(4.0 * sizes.hidden, P);
  run("whole stream", style_whole, Replicate(), reduce * 2, {});
  run("slices", style_slices, Shard(1), half * 4, norm * 2);
  run("slices, styled at the blocks", style_slices_at_blocks, Shard(1), half * 4, norm * 2);

  const auto &whole = seen_and_formula[0], &sliced = seen_and_formula[1];
  for (const MemoryClass c : all_memory_classes)
    if (c != MemoryClass::Optimizer)
      classes.row(name_of(c), group_digits(whole.first[c]), group_digits(whole.second[c]),
                  group_digits(sliced.first[c]), group_digits(sliced.second[c]));

  session.out() << differences.str() << "\n" << sent.str() << "\n" << memory.str() << "\n" << classes.str() << "\n";
  sent.check(world);
  together(world, [&] {
    for (const auto& [seen, formula] : seen_and_formula)
      for (const MemoryClass c : all_memory_classes)
        require(seen[c] == formula[c], name_of(c), ": ", seen[c], " bytes, by formula ", formula[c]);
  });
  require_shared(largest <= 1e-5, "a sharded layer differs from its serial self by ", largest, " of 1");
  session.out() << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::sequence_parallel); }
