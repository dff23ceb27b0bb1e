// Text from a model in pieces: the serial model's, token by token, and training goes on as if nothing had been asked.
#include "chapters/09_llama/generate.hpp"

#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"

using namespace course;
using namespace course::test;

namespace {
using Ids = std::vector<int32_t>;
}

TEST_CASE("greedy generation under the mesh is that of one rank") {
  const Little little;
  const GenerateOptions greedy{.tokens = 8, .temperature = 0};
  const Ids prompt = {1, 17, 4, 60, 33};
  const auto alone = world().split(world().rank(), 0, "alone");
  const auto serial = little.run(*alone, {1, 1});
  const double first_loss = serial->trainer->step().loss;
  const Ids expected = generate(serial->llama, prompt, std::nullopt, greedy, *alone);
  CHECK(expected.size() == 8);
  const double second_loss = serial->trainer->step().loss;

  for (const MeshSize& size : meshes_of(world().size()))
    for (const PlanChoice& choice : all_plans()) {
      INFO(show(size, choice));
      const auto run = little.run(world(), size, choice);
      if (size.tp == 4 && choice.plan != PlanKind::Article) {  // 3 groups of heads: one rank has none
        const Linear& k = run->llama.model.layers.layers()[0]->self_attn.k_proj;
        CHECK((k.own_parameters()[0]->box().size[0] == 0) == (world().rank() == 3));
      }
      CHECK(run->trainer->step().loss == Approx(first_loss).epsilon(1e-5));
      {
        const Unsharded whole(run->units);
        CHECK(generate(run->llama, prompt, std::nullopt, greedy, world()) == expected);
      }
      for (Parameter* p : parameters_of(run->llama)) CHECK(p->gathered() == !p->owns_part());
      CHECK(run->trainer->step().loss == Approx(second_loss).epsilon(1e-5));
    }
}
