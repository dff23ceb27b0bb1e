// An Embedding cut by columns and by rows, in every layout, against its serial self; and ids that are in no vocabulary.
#include "chapters/04_sharded_linear/embedding.hpp"

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "tests/chapters/04_sharded_linear/layouts.hpp"
#include "tests/support/cases.hpp"

namespace course::test {
namespace {

// Ids of the whole vocabulary, both ends and some more than once.
Tensor some_ids(const Shape& shape, int64_t vocabulary) {
  const Rng rng(19, "ids");
  std::vector<int32_t> ids(numel(shape));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(rng.bits(i) % vocabulary);
  if (!ids.empty()) ids.front() = static_cast<int32_t>(vocabulary - 1), ids.back() = 0;
  return backend().from_host(ids, shape);
}

std::unique_ptr<Embedding> styled(const DeviceMesh& tp, const ParallelStyle& style, int64_t V, int64_t E) {
  auto table = std::make_unique<Embedding>(backend(), V, E);
  style.apply(*table, tp);
  initialize(*table, 29);
  return table;
}

}  // namespace

TEST_CASE("an Embedding in every layout equals its serial self, bit by bit") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  struct Sizes {
    Shape ids;
    int64_t V, E;
  };
  for (const auto& [shape, V, E] : {Sizes{{6, 4}, 11, 5}, {{12}, 8, 12}, {{3, 2, 5}, 3, 2}, {{4}, 1, 1}, {{0}, 5, 3}}) {
    const Tensor ids = some_ids(shape, V);
    Shape out = shape;
    out.push_back(E);
    const Tensor dy = random("dy", out);
    Embedding serial(backend(), V, E);
    initialize(serial, 29);
    for (const bool colwise : {true, false})
      for (const Layouts& at : layouts(Replicate(), false, shape, tp.size(), 0)) {
        const bool cut_last = at.check.input == Placement(Shard(std::ssize(shape) - 1));
        if (!at.check.with_layout && cut_last && shape.back() % tp.size()) continue;  // a table knows no size of ids
        for (const Placement& output : {at.output, Placement(Shard(-1))}) {
          INFO((colwise ? "ColwiseParallel " : "RowwiseParallel ")
               << shown(at) << " to " << show(output) << " ids " << show(shape));
          Embedding sharded(backend(), V, E);
          if (colwise)
            ColwiseParallel().input(at.style_input).output(output).use_local_output(at.local_output).apply(sharded, tp);
          else
            RowwiseParallel().input(at.style_input).output(output).use_local_output(at.local_output).apply(sharded, tp);
          initialize(sharded, 29);
          ModuleCheck check = at.check;
          check.output = output;
          check_module(serial, sharded, tp, ids, dy, check);
        }
      }
  }
}

TEST_CASE("blocks of an Embedding stay whole") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Tensor ids = some_ids({6, 4}, 12), dy = random("dy", {6, 4, 8});
  Embedding serial(backend(), 12, 8);
  initialize(serial, 29);
  const auto rows = styled(tp, RowwiseParallel().input(Replicate()).block(3), 12, 8);
  CHECK(rows->weight.box().size[0] % 3 == 0);
  check_module(serial, *rows, tp, ids, dy);
  const auto columns = styled(tp, ColwiseParallel().block(4), 12, 8);
  check_module(serial, *columns, tp, ids, dy, {.output = Shard(-1, 4)});
  // Cut ids are cut between ids: the block is one of the vocabulary.
  const auto cut = styled(tp, RowwiseParallel().block(3), 12, 8);
  check_module(serial, *cut, tp, ids, dy, {.input = Shard(-1), .with_layout = true});
}

TEST_CASE("finite differences of an Embedding") {
  Embedding table(backend(), 5, 3);
  initialize(table, 29);
  check_gradients_numerically(table, some_ids({2, 4}, 5), random("dy", {2, 4, 3}));
}

TEST_CASE("B37: the padding row alone does not learn, whichever rank holds it") {
  const auto B37 = the_case("B37");
  const auto& in = B37["input"];
  const int64_t V = in["V"], E = in["d"];
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const Tensor ids = ids_of(in["ids"]), ones = backend().full({V, E}, in["dY"].get<float>());
  const auto check = [&](const std::optional<int64_t>& padding, const Tensor& gradient) {
    for (const bool colwise : {true, false}) {
      INFO("padding id " << padding.value_or(-1) << (colwise ? ", by columns" : ", by rows"));
      Embedding table(backend(), V, E, padding);
      if (colwise)
        ColwiseParallel().output(Replicate()).apply(table, tp);
      else
        RowwiseParallel().input(Replicate()).apply(table, tp);
      initialize(table, 29);
      for (const int times : {1, 2}) {  // a gradient adds up, and the row stays 0
        table.forward(backend().clone(ids));
        table.backward(backend().clone(ones));
        Tensor expected = part_of(gradient, table.weight.box());
        backend().scale(expected, static_cast<float>(times));
        CHECK(differs(table.weight.gradient(), expected) == "");
      }
    }
  };
  check(std::nullopt, ones);
  for (const auto& run : in["runs"]) {
    const int64_t padding = run["padding_idx"];
    check(padding, tensor_of(B37["right"][cat("dW_padding_", padding)]));
  }
  for (const int64_t outside : {int64_t{-1}, V}) CHECK_THROWS_AS(Embedding(backend(), V, E, outside), SharedError);
}

TEST_CASE("B37: an id in no vocabulary is the same error at every cut") {
  const DeviceMesh tp(world(), backend(), {{"tp", world().size()}});
  const auto alone = world().split(world().rank(), 0, "alone");
  const DeviceMesh one(*alone, backend(), {{"tp", 1}});
  struct Bad {
    int64_t V;
    std::vector<int32_t> ids;
    std::string says;
  };
  std::vector<Bad> all = {{8, {3, 8}, "weight: id 8 at place 1 is not in the vocabulary of 8"},
                          {10, {10, 0}, "weight: id 10 at place 0 is not in the vocabulary of 10"},
                          {10, {9, 11}, "weight: id 11 at place 1 is not in the vocabulary of 10"}};
  const auto B37 = the_case("B37");
  for (const auto& ids : B37["input"]["bad_ids"]) {
    const int64_t V = B37["input"]["V"];
    all.push_back({V, ids, cat("weight: id ", ids[0].dump(), " at place 0 is not in the vocabulary of ", V)});
  }
  for (const auto& [V, ids, says] : all) {
    const auto refused = [&, &ids = ids, &says = says, &V = V](const DeviceMesh& on, const ParallelStyle& style) {
      INFO(style.show());
      const auto table = styled(on, style, V, 2);
      CHECK_THROWS_WITH(table->forward(backend().from_host(ids, {2})), Catch::Matchers::Equals(says));
    };
    for (const DeviceMesh* on : {&one, &tp}) {
      refused(*on, ColwiseParallel());
      refused(*on, RowwiseParallel().input(Replicate()));
    }
    Embedding serial(backend(), V, 2);
    initialize(serial, 29);
    CHECK_THROWS_WITH(serial.forward(backend().from_host(ids, {2})), Catch::Matchers::Equals(says));
  }
}

}  // namespace course::test
