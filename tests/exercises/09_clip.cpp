// The norm of all gradients, and their clipping.
#include "chapters/09_llama/clip.hpp"

#include <cmath>

#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "clip", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh dp(check.world(), backend, {{"dp", check.size()}});
    for (int round = 0; round < 5; ++round) {
      const bool is_short = round == 2, owns_part = round == 4;
      Parameter a(backend, "a", {check.random(cat("A", round), 2, 7), 3}, {Init::Constant, 1}), b(backend, "b", {5}, {Init::Constant, 1});
      if (owns_part) b.own_part(dp);  // as FSDP does
      const Parameters both = {&a, &b};
      double squares = 0;
      for (Parameter* p : both) {
        p->fill(1);
        Tensor g = check.random(cat("gradient of ", p->name(), round), p->global());
        backend.scale(g, p == &b ? 5 : 1);
        if (p->owns_part()) {
          g = backend.slice(g, 0, p->owned_box().offset[0], p->owned_box().size[0]);
          p->add_owned_gradient(backend.clone(g));
        } else {
          p->gradient() = backend.clone(g);
        }
        for (const float x : backend.to_host(g)) squares += double(x) * x;
      }
      const double norm = std::sqrt(squares), max_norm = is_short ? 2 * norm : 0.4 * norm;
      check.begin(cat("norm ", norm, ", at most ", max_norm, owns_part ? ", of b a part is owned" : ""));
      check.equal("squared_norm", squared_norm(both), squares, 1e-9);
      const double factor = is_short ? 1 : max_norm / (norm + 1e-6);
      std::vector<Tensor> right;
      for (Parameter* p : both) {
        right.push_back(backend.clone(p->owned_gradient()));
        backend.scale(right.back(), static_cast<float>(factor));
      }
      check.equal("clip_gradients", clip_gradients(both, norm, max_norm), factor, 1e-9);
      for (size_t i = 0; i < both.size(); ++i) check.equal(cat("gradient of ", both[i]->name()), both[i]->owned_gradient(), right[i], 1e-6);
    }
  });
}
