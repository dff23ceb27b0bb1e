#include "chapters/09_llama/recompute.hpp"

namespace course {

void recompute_in_backward(Module& module) {
  const auto input = std::make_shared<DTensor>();  // between forward and backward
  Hooks hooks;
  hooks.before_forward = [input, &module](DTensor x) {
    *input = {};
    if (module.training()) {
      *input = x;
      module.set_training(false);
    }
    return x;
  };
  hooks.after_forward = [input, &module](DTensor y) {
    if (input->defined()) module.set_training(true);
    return y;
  };
  hooks.before_backward = [input, &module](DTensor dy) {
    require(input->defined(), module.kind(), ": backward without a forward");
    module.body(std::exchange(*input, {}));
    return dy;
  };
  module.wrap(std::move(hooks));
}

void recompute(Llama& llama, const std::string& what) {
  require_usage(what == "none" || what == "layer", "--recompute ", what, ": there are none, layer");
  if (what == "layer")
    for (DecoderLayer* layer : llama.model.layers.layers()) recompute_in_backward(*layer);
}

}  // namespace course
