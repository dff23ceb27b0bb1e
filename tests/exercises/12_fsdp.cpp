// A unit of FSDP: forward, backward and a change of the owned parts, twice, against a whole module.
#include "chapters/12_fully_sharded/fully_shard.hpp"

#include "chapters/05_sharded_mlp/mlp.hpp"
#include "tests/exercises/module_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "fsdp", [](Check& check) {
    Backend& backend = check.backend();
    const int P = check.size();
    const DeviceMesh dp(check.world(), backend, {{"dp", P}});
    for (int round = 0; round < 2; ++round) {
      const int64_t N = check.random(cat("N", round), 2, 5), E = check.random(cat("E", round), 3, 7), I = check.random(cat("I", round), 5, 9);
      GeluMlp whole(backend, E, I), sharded(backend, E, I);
      const auto unit = fully_shard(sharded, dp);
      initialize(whole, 7);
      initialize(sharded, 7);
      const double bytes = unit->bytes();
      for (int step = 0; step < 2; ++step) {
        const std::string what = cat("step ", step + 1, ", ", E, " to ", I, " features");
        clear_gradients(whole);
        clear_gradients(sharded);
        Tensor y, dx;
        for (int r = 0; r < P; ++r) {  // the whole module sees every rank's samples
          const Tensor of_rank = whole.forward(check.random(cat("x", round, step, r), {N, E})).take(backend);
          Tensor d = whole.backward(check.random(cat("dy", round, step, r), {N, E})).take(backend);
          if (r == check.rank()) y = backend.clone(of_rank), dx = std::move(d);
        }
        check.begin(cat("forward, ", what));
        check.equal("output", sharded.forward(check.random(cat("x", round, step, check.rank()), {N, E})).take(backend), y);
        check.sent({{Op::AllGather, {1, ring_bytes(Op::AllGather, bytes, P)}}});
        check.equal("whole values kept after forward", parameters_of(sharded)[0]->gathered() ? "yes" : "no", "no");
        check.begin(cat("backward, ", what));
        check.equal("gradient of the input",
                    sharded.backward(check.random(cat("dy", round, step, check.rank()), {N, E})).take(backend), dx);
        const double volume = ring_bytes(Op::ReduceScatter, bytes, P);
        check.sent({{Op::AllGather, {1, ring_bytes(Op::AllGather, bytes, P)}}, {Op::ReduceScatter, {1, volume}}});
        const Parameters all = parameters_of(whole), mine = parameters_of(sharded);
        check.equal("whole gradients kept after backward", mine[0]->has_gradient() ? "yes" : "no", "no");
        for (size_t i = 0; i < all.size(); ++i) {
          const Box& box = mine[i]->owned_box();
          check.equal(cat("gradient of ", mine[i]->name(), ", this rank's part"), mine[i]->owned_gradient(),
                      backend.slice(all[i]->gradient(), 0, box.offset[0], box.size[0]));
          backend.scale(all[i]->owned_to_write(), 0.5f);  // as an optimizer would change them
          backend.scale(mine[i]->owned_to_write(), 0.5f);
        }
      }
    }
    const int64_t E = check.random("E in bf16", 3, 7);
    GeluMlp whole(backend, E, 5), half(backend, E, 5);
    compute_in(half, DType::BF16);
    const auto unit = fully_shard(half, dp);
    initialize(whole, 7);
    initialize(half, 7);
    check.begin(cat("a unit that computes in bf16, ", E, " to 5 features"));
    unit->unshard();
    const Parameters all = parameters_of(whole), mine = parameters_of(half);
    for (size_t i = 0; i < all.size(); ++i)
      check.equal(cat("whole ", mine[i]->name(), ", to bf16's rounding"), backend.in_type(backend.clone(mine[i]->value()), DType::F32),
                  all[i]->value(), 0.005);
    check.sent({{Op::AllGather, {1, ring_bytes(Op::AllGather, unit->bytes(), P)}}});
  });
}
