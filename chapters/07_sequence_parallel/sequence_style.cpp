#include "chapters/07_sequence_parallel/sequence_style.hpp"

#include "chapters/07_sequence_parallel/rms_norm.hpp"

namespace course {
namespace {

std::string arrow(const char* style, const Placement& from, const Placement& to) {
  return cat(style, "(", show(from), " → ", show(to), ")");
}

}  // namespace

std::string SequenceParallel::show() const { return cat("SequenceParallel(S(", dim_, "))"); }

void SequenceParallel::cut(Module& module, const DeviceMesh& tp) const {
  auto* norm = dynamic_cast<RmsNorm*>(&module);
  require_shared(norm, "SequenceParallel takes an RmsNorm, not a ", module.kind());
  norm->weight.place(tp, Replicate(), Partial());
  const Placement slice = Shard(dim_);
  module.wrap(convert_input(tp, slice, slice, slice, false));
  module.wrap(convert_output(tp, slice, slice, use_local_output_));
}

std::string PrepareModuleInput::show() const { return arrow("PrepareModuleInput", input_, desired_); }

void PrepareModuleInput::cut(Module& module, const DeviceMesh& tp) const {
  module.wrap(convert_input(tp, input_, desired_, desired_, use_local_output_));
}

std::string PrepareModuleOutput::show() const { return arrow("PrepareModuleOutput", output_, desired_); }

void PrepareModuleOutput::cut(Module& module, const DeviceMesh& tp) const {
  module.wrap(convert_output(tp, output_, desired_, use_local_output_));
}

std::string PrepareModuleInputOutput::show() const {
  return cat(arrow("PrepareModuleInputOutput", input_, desired_input_), " (", course::show(output_), " → ",
             course::show(desired_output_), ")");
}

void PrepareModuleInputOutput::cut(Module& module, const DeviceMesh& tp) const {
  module.wrap(convert_input(tp, input_, desired_input_, desired_input_, use_local_input_));
  module.wrap(convert_output(tp, output_, desired_output_, use_local_output_));
}

}  // namespace course
