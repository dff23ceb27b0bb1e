// A decoder layer whose stream is cut along the sequence, against the layer without styles: the output, the gradient of the
// input, and what is sent.
#pragma once

#include <functional>

#include "chapters/07_sequence_parallel/decoder_layer.hpp"
#include "tests/exercises/module_check.hpp"

namespace course {

// `cut` puts the styles on. `parameters` compares what is left to compare: the serial layer's, then the cut one's.
inline void check_sliced_layer(Check& check,
                               const std::function<void(DecoderLayer&, const AttentionSizes&, const DeviceMesh&)>& cut,
                               const std::function<void(const DeviceMesh&, const Parameters&, const Parameters&)>& parameters) {
  Backend& backend = check.backend();
  const DeviceMesh tp(check.world(), backend, {{"tp", check.size()}});
  for (int round = 0; round < 2; ++round) {
    const int64_t B = check.random(cat("B", round), 1, 3), S = check.random(cat("S", round), 5, 9), K = 2 + round, G = 2, D = 4;
    const int64_t E = check.random(cat("E", round), 9, 14), I = check.random(cat("I", round), 9, 14);
    const AttentionSizes sizes{E, K * G, K, D};
    const std::string what = cat("B ", B, ", S ", S, ", E ", E, ", ", K * G, " heads on ", K);
    check.begin(what);
    const auto rope = std::make_shared<RopeTable>(backend, 16, D);
    const auto context = std::make_shared<SequenceContext>();
    DecoderLayer serial(backend, sizes, I, 1e-5, rope, context), sharded(backend, sizes, I, 1e-5, rope, context);
    cut(sharded, sizes, tp);
    initialize(serial, 9);
    initialize(sharded, 9);

    const Tensor x = check.random(cat("x", round), {B, S, E}), dy = check.random(cat("dy", round), {B, S, E});
    const Tensor y = serial.forward(backend.clone(x)).take(backend), dx = serial.backward(backend.clone(dy)).take(backend);
    const auto slice = [&](const Tensor& whole) {
      return DTensor::from_local(part_of(check, whole, tp, Shard(1)), tp, {Shard(1)}, whole.shape());
    };
    const auto moved = [&](Op op) { return Sent{2, 2 * ring_bytes(op, 4.0 * static_cast<double>(B * S * E), check.size())}; };
    const std::map<Op, Sent> expected = {{Op::AllGather, moved(Op::AllGather)}, {Op::ReduceScatter, moved(Op::ReduceScatter)}};
    check.begin(cat("forward, ", what));
    check.equal("output", sharded.forward(slice(x)).to_local().take(backend), part_of(check, y, tp, Shard(1)));
    check.sent(expected);
    check.begin(cat("backward, ", what));
    check.equal("gradient of the input", sharded.backward(slice(dy)).to_local().take(backend), part_of(check, dx, tp, Shard(1)));
    check.sent(expected);
    parameters(tp, parameters_of(serial), parameters_of(sharded));
  }
}

}  // namespace course
