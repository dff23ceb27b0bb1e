// An Embedding cut by columns and by rows, in every layout, against its serial self; and ids that are in no vocabulary.
#include "chapters/04_sharded_linear/embedding.hpp"

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "tests/chapters/04_sharded_linear/layouts.hpp"

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

TEST_CASE("B37: each id once gives each row its gradient once") {
  const int P = world().size();
  const DeviceMesh tp(world(), backend(), {{"tp", P}});
  const Tensor ids = backend().from_host(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, {8});
  for (const bool colwise : {true, false}) {
    const auto table = colwise ? styled(tp, ColwiseParallel().output(Replicate()), 8, 2)
                               : styled(tp, RowwiseParallel().input(Replicate()), 8, 2);
    table->forward(backend().clone(ids));
    table->backward(backend().full({8, 2}, 1));
    // No padding index: a row that padding uses learns as any other.
    CHECK(differs(table->weight.gradient(), backend().full(table->weight.box().size, 1)) == "");
  }
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
  for (const auto& [V, ids, says] :
       {Bad{8, {-1, 3}, "weight: id -1 at place 0 is not in the vocabulary of 8"},
        {8, {8, 3}, "weight: id 8 at place 0 is not in the vocabulary of 8"},
        {8, {3, 8}, "weight: id 8 at place 1 is not in the vocabulary of 8"},
        {8, {2147483647, 3}, "weight: id 2147483647 at place 0 is not in the vocabulary of 8"},
        {10, {10, 0}, "weight: id 10 at place 0 is not in the vocabulary of 10"},
        {10, {9, 11}, "weight: id 11 at place 1 is not in the vocabulary of 10"}}) {
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
