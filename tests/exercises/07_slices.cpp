// A decoder layer with its styles put on by hand: values, what is sent, and the parameters' gradients.
#include "chapters/07_sequence_parallel/layer_by_hand.hpp"
#include "tests/exercises/layer_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "slices", [](Check& check) {
    check_sliced_layer(check, style_slices, [&](const DeviceMesh& tp, const Parameters& whole, const Parameters& mine) {
      for (size_t i = 0; i < whole.size(); ++i) {
        Tensor gradient = check.backend().clone(mine[i]->gradient());
        if (is_partial(mine[i]->grad_placement("tp"))) tp.comm().all_reduce(gradient).wait();
        check.equal(cat("gradient of ", mine[i]->name()), gradient,
                    part_of(check, whole[i]->gradient(), tp, mine[i]->placement("tp")));
      }
    });
  });
}
