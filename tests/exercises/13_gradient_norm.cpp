// The norm of gradients that lie in pieces on a mesh: cut on one axis, on the other, on both, on none.
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"

#include <cmath>

#include "tests/exercises/module_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "gradient_norm", [](Check& check) {
    Backend& backend = check.backend();
    const int64_t P = check.size(), dp = P % 2 == 0 ? 2 : 1;
    for (int round = 0; round < 2; ++round) {
      const DeviceMesh mesh(check.world(), backend, {{"dp", round == 0 ? dp : P / dp}, {"tp", round == 0 ? P / dp : dp}});
      double squares = 0;
      std::vector<std::unique_ptr<Parameter>> parameters;
      Parameters all;
      for (int i = 0; i < 4; ++i) {
        parameters.push_back(std::make_unique<Parameter>(backend, cat("p", i), Shape{check.random(cat("rows", round, i), 3, 9), 4},
                                                         Init{Init::Constant, 1}));
        Parameter& p = *parameters.back();
        if (i & 1) p.place(mesh["tp"], Shard(0), Shard(0));
        if (i & 2) p.own_part(mesh["dp"]);
        p.fill(1);
        const Tensor whole = check.random(cat("gradient ", round, i), p.global());
        for (const float x : backend.to_host(whole)) squares += double(x) * x;
        const Box& box = p.owned_box();
        Tensor mine = backend.slice(whole, 0, box.offset[0], box.size[0]);
        if (p.owns_part())
          p.add_owned_gradient(std::move(mine));
        else
          p.gradient() = std::move(mine);
        all.push_back(&p);
      }
      check.begin(mesh.show());
      check.equal("gradient_norm", gradient_norm(all, mesh, check.world()), std::sqrt(squares), 1e-9);
      check.equal("all-reduces", static_cast<double>(check.calls(Op::AllReduce)), P > 1 ? 1 : 0);
    }
  });
}
