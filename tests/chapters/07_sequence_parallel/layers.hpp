// Decoder layers for the tests of chapters 07 and 08: sizes that do not divide, and layers made from them or from a
// golden file.
#pragma once

#include "chapters/07_sequence_parallel/decoder_layer.hpp"
#include "tests/chapters/05_sharded_mlp/sgd.hpp"

namespace course::test {

inline DeviceMesh tp_mesh(Comm& comm = world()) { return DeviceMesh(comm, backend(), {{"tp", comm.size()}}); }

// B batch  S sequence  I intermediate
struct LayerSizes {
  int64_t B, S, I;
  AttentionSizes attention;  // E, H, K, D
  Shape shape() const { return {B, S, attention.hidden}; }
};

// Even; (12,3) heads and S = 7; fewer positions, groups and features than 4 ranks; a hidden size that is not H·D.
inline const LayerSizes layer_sizes[] = {{2, 12, 24, {24, 12, 12, 2}},
                                         {3, 7, 19, {24, 12, 3, 2}},
                                         {5, 3, 2, {10, 4, 2, 6}},
                                         {1, 3, 13, {6, 3, 1, 4}},
                                         {2, 2, 7, {14, 6, 3, 2}}};

inline std::string shown(const LayerSizes& z) {
  return cat("B ", z.B, ", S ", z.S, ", I ", z.I, ", E ", z.attention.hidden, ", ", z.attention.heads, "/",
             z.attention.kv_heads, " heads of ", z.attention.head_dim, ", rank ", world().rank(), " of ",
             world().size());
}

inline std::unique_ptr<DecoderLayer> make_layer(const LayerSizes& z, double eps = 1e-5, double theta = 10000) {
  return std::make_unique<DecoderLayer>(backend(), z.attention, z.I, eps,
                                        std::make_shared<const RopeTable>(backend(), z.S, z.attention.head_dim, theta),
                                        std::make_shared<const SequenceContext>());
}

inline LayerSizes sizes_of(const Golden& golden) {
  return {golden.integer("batch"),
          golden.integer("seq"),
          golden.integer("intermediate_size"),
          {golden.integer("hidden_size"), golden.integer("num_attention_heads"), golden.integer("num_key_value_heads"),
           golden.integer("head_dim")}};
}

inline std::unique_ptr<DecoderLayer> make_layer(const Golden& golden) {
  return make_layer(sizes_of(golden), golden.number("rms_norm_eps"), golden.number("rope_theta"));
}

// The stream in slices is a DTensor, whose parts may differ; whole it is a plain tensor.
inline ModuleCheck stream(const Placement& placement, double tolerance = 1e-5) {
  return {
      .input = placement, .with_layout = as_shard(placement) != nullptr, .output = placement, .tolerance = tolerance};
}

inline DTensor part_of_stream(const Tensor& whole, const DeviceMesh& tp, const Placement& placement) {
  const DTensor part = part_of(whole, tp, placement);
  return as_shard(placement) ? DTensor::from_local(part, tp, {placement}, whole.shape()) : part;
}

inline void sum_partial_gradients(Module& module, const DeviceMesh& tp) {
  for (Parameter* p : parameters_of(module))
    if (is_partial(p->grad_placement(tp.name(0)))) tp.comm().all_reduce(p->gradient()).wait();
}

// Output, every gradient, and the parameters after three steps.
inline void check_layer(const LayerSizes& z, DecoderLayer& serial, DecoderLayer& sharded, const DeviceMesh& tp,
                        const Placement& placement) {
  initialize(serial, 11), initialize(sharded, 11);
  check_module(serial, sharded, tp, random("x", z.shape()), random("dy", z.shape()), stream(placement));
  check_steps(serial, sharded, tp, z.shape(), [&](const Tensor& x, const Tensor& dy) {
    sharded.forward(part_of_stream(x, tp, placement));
    sharded.backward(part_of_stream(dy, tp, placement));
    sum_partial_gradients(sharded, tp);
  });
}

}  // namespace course::test
