// Batches that the ranks of dp cannot share evenly: some have no sequence in a micro-batch, or in a held-out batch, and
// still come to every collective.
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

TEST_CASE("micro-batches and held-out batches, empty ones on some ranks, give the loss of one rank") {
  Little little;
  const auto alone = world().split(world().rank(), 0, "alone");
  const auto serial = little.run(*alone, {1, 1});
  const StepResult first = serial->trainer->step(), second = serial->trainer->step();
  const double held = serial->trainer->validate(little.data, 3, 5);

  little.options.accumulate = 5;  // of 12, 6, 4 or 3 sequences a rank
  for (const MeshSize& size : meshes_of(world().size()))
    for (const PlanChoice& choice : all_plans()) {
      INFO(show(size, choice));
      const auto run = little.run(world(), size, choice);
      for (const StepResult& right : {first, second}) {
        const StepResult result = run->trainer->step();
        CHECK(result.loss == Approx(right.loss).epsilon(1e-5));
        CHECK(result.grad_norm == Approx(right.grad_norm).epsilon(1e-4));
        CHECK(result.tokens == right.tokens);
      }
      CHECK(run->trainer->validate(little.data, 3, 5) == Approx(held).epsilon(1e-5));
    }
}
