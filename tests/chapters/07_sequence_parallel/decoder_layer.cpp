// A decoder layer, styled by hand in three ways.
#include "chapters/07_sequence_parallel/decoder_layer.hpp"

#include "chapters/07_sequence_parallel/layer_by_hand.hpp"
#include "chapters/07_sequence_parallel/stream_comparison.hpp"
#include "common/chunk.hpp"
#include "tests/chapters/07_sequence_parallel/layers.hpp"

namespace course::test {
namespace {

struct Way {
  std::string name;
  void (*style)(DecoderLayer&, const AttentionSizes&, const DeviceMesh&);
  Placement stream;
};
const Way ways[] = {{"whole", style_whole, Replicate()},
                    {"slices", style_slices, Shard(1)},
                    {"slices at the blocks", style_slices_at_blocks, Shard(1)}};

}  // namespace

TEST_CASE("decoder layer: PyTorch's numbers, serial and by hand", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("decoder_layer__")) {
    const Golden golden(path);
    const double tolerance = golden_tolerance(golden);
    const Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout");
    CHECK(x.shape() == sizes_of(golden).shape());
    {
      INFO(golden.name() << ", serial");
      const auto layer = make_layer(golden);
      fill_from(*layer, golden);
      check_module(expected_of(golden), *layer, tp, x, dy, {.tolerance = tolerance});
    }
    for (const Way& way : ways) {
      INFO(golden.name() << ", " << way.name);
      const auto layer = make_layer(golden);
      way.style(*layer, sizes_of(golden).attention, tp);
      fill_from(*layer, golden);
      check_module(expected_of(golden), *layer, tp, x, dy, stream(way.stream, tolerance));
    }
  }
}

TEST_CASE("a decoder layer's gradients are the slopes of its output") {
  const LayerSizes z = {2, 3, 3, {4, 2, 1, 2}};
  const auto layer = make_layer(z, 1e-2);
  initialize(*layer, 5);
  check_gradients_numerically(*layer, random("x", z.shape()), random("dy", z.shape()));
}

TEST_CASE("a decoder layer styled by hand equals its serial self: output, gradients, parameters after three steps") {
  const DeviceMesh tp = tp_mesh();
  for (const LayerSizes& z : layer_sizes)
    for (const Way& way : ways) {
      INFO(shown(z) << ", " << way.name);
      const auto serial = make_layer(z), sharded = make_layer(z);
      way.style(*sharded, z.attention, tp);
      check_layer(z, *serial, *sharded, tp, way.stream);
    }
}

TEST_CASE("S = 7 on 2 ranks and S = 3 on 4: each rank has its own number of positions (B35 a)", "[B35]") {
  for (const auto& [S, ranks] : {std::pair<int64_t, int>{7, 2}, {3, 4}}) {
    const auto group = world().split(world().rank() / ranks, world().rank(), "tp");
    const DeviceMesh tp = tp_mesh(*group);
    const LayerSizes z = {2, S, 11, {12, 6, 3, 2}};
    INFO(shown(z) << ", groups of " << ranks);
    const auto serial = make_layer(z), sharded = make_layer(z);
    style_slices(*sharded, z.attention, tp);
    check_layer(z, *serial, *sharded, tp, Shard(1));
    const DTensor y = sharded->forward(part_of_stream(random("x", z.shape()), tp, Shard(1)));
    CHECK(y.global() == z.shape());
    CHECK(y.local().dim(1) == chunk(S, tp.size(), tp.coordinate()).size);
    sharded->backward(part_of_stream(random("dy", z.shape()), tp, Shard(1)));
  }
}

TEST_CASE("what a layer sends and keeps: the same bytes, a slice of the memory between the blocks") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t ranks = tp.size(), some = ranks > 1;
  for (const LayerSizes& z : layer_sizes) {
    const auto serial = make_layer(z);
    initialize(*serial, 5);
    StreamComparison compare(tp, traffic, *serial, z.shape());
    const auto [E, H, K, D] = z.attention;
    const double share = (ranks - 1.0) / ranks, n = 4.0 * z.B * z.S * E;
    const int64_t k = chunk(K, ranks, tp.coordinate()).size, h = k * (H / K),
                  i = chunk(z.I, ranks, tp.coordinate()).size;
    for (const Way& way : ways) {
      INFO(shown(z) << ", " << way.name);
      const auto layer = make_layer(z);
      way.style(*layer, z.attention, tp);
      initialize(*layer, 5);
      const StreamRun run = compare.run(*layer, way.stream);
      CHECK(run.difference <= 1e-5);
      const bool sliced = as_shard(way.stream);
      for (const Traffic* direction : {&run.forward, &run.backward}) {
        CHECK(direction->count(Op::AllReduce) == some * (sliced ? 0 : 2));
        CHECK(direction->count(Op::AllGather) == some * (sliced ? 2 : 0));
        CHECK(direction->count(Op::ReduceScatter) == some * (sliced ? 2 : 0));
        CHECK(direction->total().calls == some * (sliced ? 4 : 2));
        CHECK(direction->total().bytes == Approx(4 * share * n).epsilon(1e-9));
      }
      CHECK(run.gradients.total().calls == some * (sliced ? 2 : 0));
      CHECK(run.gradients.total().bytes == Approx(sliced ? 2 * 2 * share * 4 * E : 0).epsilon(1e-9));
      const int64_t s = sliced ? chunk(z.S, ranks, tp.coordinate()).size : z.S;
      CHECK(run.kept == 4 * (2 * z.B * s * (E + 1) + z.B * z.S * (2 * E + (2 * h + 2 * k) * D + h + 3 * i) + z.S));
    }
  }
}

TEST_CASE("sequences of one token: on all ranks but one the stream is empty") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const LayerSizes z = {3, 1, 7, {14, 6, 3, 2}};
  const auto serial = make_layer(z);
  initialize(*serial, 5);
  StreamComparison compare(tp, traffic, *serial, z.shape());
  for (const Way& way : ways) {
    INFO(shown(z) << ", " << way.name);
    const auto layer = make_layer(z);
    way.style(*layer, z.attention, tp);
    initialize(*layer, 5);
    CHECK(compare.run(*layer, way.stream).difference <= 1e-5);
  }
}

TEST_CASE("a stream that lies otherwise than the styles say is an error, not a wrong number") {
  if (world().size() == 1) return;
  const DeviceMesh tp = tp_mesh();
  const LayerSizes z = {2, 12, 8, {12, 6, 3, 2}};
  {  // slices as plain tensors: the blocks give DTensors, the residual has no layout
    const auto layer = make_layer(z);
    style_slices(*layer, z.attention, tp);
    initialize(*layer, 5);
    if (12 % world().size() == 0)
      CHECK_THROWS_WITH(layer->forward(part_of(random("x", z.shape()), tp, Shard(1))),
                        Catch::Matchers::Contains("a redistribute is missing"));
  }
  {  // the whole stream to a layer in slices: the norms cut it, the residual does not
    const auto layer = make_layer(z);
    style_slices(*layer, z.attention, tp);
    initialize(*layer, 5);
    CHECK_THROWS_WITH(layer->forward(DTensor::from_local(random("x", z.shape()), tp, {Replicate()})),
                      Catch::Matchers::Contains("cannot add"));
  }
  {  // a whole stream with a layout: who would reduce its Partial gradient?
    const auto layer = make_layer(z);
    style_whole(*layer, z.attention, tp);
    initialize(*layer, 5);
    CHECK_THROWS(layer->forward(DTensor::from_local(random("x", z.shape()), tp, {Replicate()})));
  }
}

TEST_CASE("while not training a layer keeps nothing") {
  const DeviceMesh tp = tp_mesh();
  const LayerSizes z = layer_sizes[1];
  for (const Way& way : ways) {
    const auto layer = make_layer(z);
    way.style(*layer, z.attention, tp);
    initialize(*layer, 5);
    const DTensor trained = layer->forward(part_of_stream(random("x", z.shape()), tp, way.stream));
    layer->backward(part_of_stream(random("dy", z.shape()), tp, way.stream));
    layer->set_training(false);
    const int64_t before = backend().memory_use().now;
    {
      const DTensor y = layer->forward(part_of_stream(random("x", z.shape()), tp, way.stream));
      CHECK(differs(y.local(), trained.local()) == "");
    }
    CHECK(backend().memory_use().now == before);
  }
}

}  // namespace course::test
