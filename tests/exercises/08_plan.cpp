// The plan `sequence`, applied to a decoder layer: values, what is sent, and how much of each parameter is here.
#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "tests/exercises/layer_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "plan", [](Check& check) {
    const auto cut = [](DecoderLayer& layer, const AttentionSizes& sizes, const DeviceMesh& tp) {
      parallelize_module(layer, tp, layer_plan(PlanKind::Sequence, sizes));
    };
    check_sliced_layer(check, cut, [&](const DeviceMesh& tp, const Parameters& whole, const Parameters& mine) {
      for (size_t i = 0; i < whole.size(); ++i)
        check.equal(cat(mine[i]->name(), ": elements here"), static_cast<double>(numel(mine[i]->box().size)),
                    static_cast<double>(numel(local_box(tp, {mine[i]->placement("tp")}, whole[i]->global()).size)));
    });
  });
}
