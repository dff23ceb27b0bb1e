// Cases B02 and B25 of tests/cases: the norm over both axes, the clip by it, and a gradient that is not finite.
#include <cmath>
#include <limits>

#include "chapters/09_llama/clip.hpp"
#include "tests/chapters/13_two_dimensional/two_dimensional.hpp"
#include "tests/support/cases.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();

// The ranks that spoil a gradient in B25, and with what. Its last rank is 3; of 3 ranks the last holds nothing of A's 4
// elements, which are cut 2, 2, 0.
std::vector<std::pair<int, float>> spoilers() {
  const int size = world().size();
  return {{size == 3 ? 1 : size - 1, infinity}, {std::min(1, size - 1), not_a_number}};
}

// How A lies on the mesh: cut by tp's style, by FSDP, or by a placement on dp.
struct A_layout {
  const char* name;
  bool tp, fsdp, dp;
};
constexpr A_layout layouts[] = {{"A on both axes, FSDP across", true, true, false},
                                {"A on both axes by placement", true, false, true},
                                {"A on dp, FSDP", false, true, false},
                                {"A on dp by placement", false, false, true},
                                {"A on tp", true, false, false},
                                {"A whole everywhere", false, false, false}};

// A, cut as the layout says, and B, on all ranks; both with their part of B02's gradients.
struct Case {
  Case(const DeviceMesh& mesh, const A_layout& layout, const json& input)
      : A(backend(), "A", {static_cast<int64_t>(input.at("A_grad").size())}, Init{}),
        B(backend(), "B", {static_cast<int64_t>(input.at("B_grad").size())}, Init{}) {
    if (layout.tp) A.place(mesh["tp"], Shard(0), Shard(0));
    if (layout.dp) A.place(mesh["dp"], Shard(0), Shard(0));
    if (layout.fsdp) A.own_part(mesh["dp"]);
    set(A, floats_of(input.at("A_grad")));
    set(B, floats_of(input.at("B_grad")));
  }
  static void set(Parameter& p, const std::vector<float>& whole) {
    p.fill(whole);
    Tensor part = part_of(backend().from_host(whole, p.global()), p.owned_box());
    if (p.owns_part())
      p.add_owned_gradient(std::move(part));
    else
      backend().add(p.gradient(), part);
  }
  Parameters all() { return {&A, &B}; }
  Parameter A, B;
};

}  // namespace

TEST_CASE("B02: one norm on every rank, however a parameter lies on the mesh") {
  const json B02 = the_case("B02");
  const double norm = B02.at("right").at("norm"), max_norm = B02.at("input").at("max_norm");
  const Tensor A = tensor_of(B02.at("right").at("A_clipped")), B = tensor_of(B02.at("right").at("B_clipped"));
  for (const MeshSize& size : meshes_of(world().size())) {
    const DeviceMesh mesh(world(), backend(), {{"dp", size.dp}, {"tp", size.tp}});
    for (const A_layout& layout : layouts) {
      INFO(mesh.show() << ", " << layout.name);
      Case it(mesh, layout, B02.at("input"));
      const double found = gradient_norm(it.all(), mesh, world());
      CHECK(found == Approx(norm).epsilon(1e-12));
      clip_gradients(it.all(), found, max_norm);
      CHECK(differs(it.A.owned_gradient(), part_of(A, it.A.owned_box()), 1e-6) == "");
      CHECK(differs(it.B.owned_gradient(), B, 1e-6) == "");
    }
  }
}

TEST_CASE("B25: the clip is applied to the buffers, and only above the limit") {
  const json B02 = the_case("B02"), B25 = the_case("B25");
  const auto limits = B25.at("input").at("max_norm").get<std::vector<double>>(),
             after = B25.at("right").at("norm_of_buffers_after").get<std::vector<double>>();
  for (const MeshSize& size : meshes_of(world().size())) {
    const DeviceMesh mesh(world(), backend(), {{"dp", size.dp}, {"tp", size.tp}});
    for (const A_layout& layout : layouts)
      for (size_t i = 0; i < limits.size(); ++i) {
        INFO(mesh.show() << ", " << layout.name << ", limit " << limits[i]);
        Case it(mesh, layout, B02.at("input"));
        clip_gradients(it.all(), gradient_norm(it.all(), mesh, world()), limits[i]);
        CHECK(gradient_norm(it.all(), mesh, world()) == Approx(after[i]).epsilon(1e-6));
      }
  }
}

TEST_CASE("B25: one rank's inf or NaN is every rank's norm, and the clip refuses it") {
  const json B02 = the_case("B02");
  for (const MeshSize& size : meshes_of(world().size())) {
    const DeviceMesh mesh(world(), backend(), {{"dp", size.dp}, {"tp", size.tp}});
    for (const auto& [rank, bad] : spoilers()) {
      INFO(mesh.show() << ", " << bad << " on rank " << rank);
      Case it(mesh, layouts[0], B02.at("input"));
      if (world().rank() == rank) {
        auto values = backend().to_host(it.A.owned_gradient());
        CHECK(values.size() > 0);
        if (!values.empty()) values[0] = bad;
        backend().copy_in(it.A.owned_gradient(), values.data());
      }
      const auto before = backend().to_host(it.B.owned_gradient());
      const double norm = gradient_norm(it.all(), mesh, world());
      CHECK(std::isnan(norm) == std::isnan(bad));
      CHECK_FALSE(std::isfinite(norm));
      CHECK_THROWS_AS(clip_gradients(it.all(), norm, 1), SharedError);
      CHECK(backend().to_host(it.B.owned_gradient()) == before);
    }
  }
}

TEST_CASE("B25: a step whose gradient is not finite on one rank stops on every rank and changes nothing") {
  const Little little;
  for (const MeshSize& size : meshes_of(world().size()))
    for (const auto& [rank, bad] : spoilers())
      for (const bool before_the_sums : {true, false}) {
        INFO("dp " << size.dp << " × tp " << size.tp << ", " << bad << " on rank " << rank
                   << (before_the_sums ? ", in a norm before" : ", in a weight after") << " the sums over tp");
        bool spoil = false;
        const auto good = little.run(world(), size), run = little.run(world(), size);
        const auto finish = run->gradients.finish;
        run->gradients.finish = [&, rank = rank, bad = bad](const Parameters& parameters) {
          if (!before_the_sums) finish(parameters);
          for (Parameter* p : parameters) {
            const bool wanted = is_partial(p->grad_placement("tp")) == before_the_sums;
            if (!spoil || world().rank() != rank || !wanted || p->owned_gradient().numel() == 0) continue;
            auto values = backend().to_host(p->owned_gradient());
            values.back() = bad;
            backend().copy_in(p->owned_gradient(), values.data());
            break;
          }
          if (before_the_sums) finish(parameters);
        };
        little.start(*run);
        good->trainer->step();
        run->trainer->step();

        const auto parts = [&] {
          std::vector<std::vector<float>> all;
          for (size_t i = 0; i < run->optimizer->parameters().size(); ++i)
            for (const Tensor* t : std::initializer_list<const Tensor*>{&run->optimizer->parameters()[i]->owned(),
                                                                        &run->optimizer->mean(i), &run->optimizer->square(i)})
              all.push_back(backend().to_host(*t));
          return all;
        };
        const auto before = parts();
        spoil = true;
        CHECK_THROWS_AS(run->trainer->step(), SharedError);
        CHECK(parts() == before);
        CHECK(run->trainer->steps() == 1);

        // Nothing of it stays: the step taken again is the step that was never spoilt.
        spoil = false;
        const StepResult again = run->trainer->step(), right = good->trainer->step();
        CHECK(again.step == 2);
        CHECK(again.loss == right.loss);
        CHECK(again.grad_norm == right.grad_norm);
      }
}
