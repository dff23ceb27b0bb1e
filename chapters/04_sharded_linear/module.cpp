#include "chapters/04_sharded_linear/module.hpp"

namespace course {

DTensor Module::forward(DTensor x) {
  for (auto hook = hooks_.rbegin(); hook != hooks_.rend(); ++hook)
    if (hook->before_forward) x = hook->before_forward(std::move(x));
  x = run_forward(std::move(x));
  for (auto& hook : hooks_)
    if (hook.after_forward) x = hook.after_forward(std::move(x));
  return x;
}

DTensor Module::backward(DTensor dy) {
  for (auto hook = hooks_.rbegin(); hook != hooks_.rend(); ++hook)
    if (hook->before_backward) dy = hook->before_backward(std::move(dy));
  dy = run_backward(std::move(dy));
  for (auto& hook : hooks_)
    if (hook.after_backward) dy = hook.after_backward(std::move(dy));
  return dy;
}

void Module::set_style(std::string style) {
  require_shared(!styled(), "a ", kind(), " is styled twice: ", style_, ", then ", style);
  style_ = std::move(style);
}

void Module::set_training(bool on) {
  training_ = on;
  for (auto& [name, child] : children_) child->set_training(on);
}

Parameter& Module::add_parameter(const std::string& name, Shape global, Init init) {
  parameters_.push_back(std::make_unique<Parameter>(*backend_, name, std::move(global), init));
  return *parameters_.back();
}

namespace {

void collect(const std::string& path, Module& module, std::vector<NamedModule>& into) {
  into.push_back({path, &module});
  for (const auto& [name, child] : module.children()) collect(path.empty() ? name : path + "." + name, *child, into);
}

}  // namespace

std::vector<NamedModule> named_modules(Module& root) {
  std::vector<NamedModule> all;
  collect("", root, all);
  return all;
}

Parameters parameters_of(Module& root) {
  Parameters all;
  for (const auto& [path, module] : named_modules(root))
    for (const auto& parameter : module->own_parameters()) {
      const std::string& name = parameter->name();
      const std::string leaf = name.substr(name.find_last_of('.') + 1);
      const std::string named = path.empty() ? leaf : path + "." + leaf;
      if (!name.ends_with("." + named)) parameter->rename(named);
      all.push_back(parameter.get());
    }
  return all;
}

void compute_in(Module& root, DType type) {
  for (Parameter* p : parameters_of(root)) p->compute_in(type);
}

void initialize(Module& root, uint64_t seed) {
  for (Parameter* parameter : parameters_of(root)) parameter->fill(seed);
}

void clear_gradients(Module& root) {
  for (Parameter* parameter : parameters_of(root)) parameter->clear_gradient();
}

}  // namespace course
