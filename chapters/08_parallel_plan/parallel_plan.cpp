#include "chapters/08_parallel_plan/parallel_plan.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace course {

bool matches(const std::string& pattern, const std::string& path) {
  // FNM_PATHNAME keeps wildcards from crossing '/', so the dots become slashes.
  const auto slashes = [](std::string text) {
    std::replace(text.begin(), text.end(), '.', '/');
    return text;
  };
  return fnmatch(slashes(pattern).c_str(), slashes(path).c_str(), FNM_PATHNAME) == 0;
}

void parallelize_module(Module& root, const DeviceMesh& tp, const ParallelPlan& plan) {
  require_shared(tp.dims() == 1, "parallelize_module takes a mesh of one axis, not ", tp.show(), ": pass mesh[\"tp\"]");
  for (const auto& entry : plan) {
    bool found = false;
    for (const auto& [path, module] : named_modules(root)) {
      if (!matches(entry.pattern, path)) continue;
      found = true;
      try {
        entry.style->apply(*module, tp);
      } catch (const SharedError& error) {
        throw SharedError(cat("plan entry '", entry.pattern, "' at module '", path, "': ", error.what()));
      }
    }
    require_shared(found, "plan entry '", entry.pattern, "' matches no module of this ", root.kind());
  }
}

std::string show_tree(Module& root, const std::string& axis) {
  parameters_of(root);  // names them
  std::string text;
  for (const auto& [path, module] : named_modules(root)) {
    const auto depth = path.empty() ? 0 : 1 + std::count(path.begin(), path.end(), '.');
    const std::string indent(2 * depth, ' ');
    const std::string name = path.empty() ? module->kind() : path.substr(path.find_last_of('.') + 1);
    text += cat(indent, name, module->styled() ? "  " + module->style() : "", "\n");
    for (const auto& p : module->own_parameters())
      text += cat(indent, "  · ", p->name().substr(p->name().find_last_of('.') + 1), " ", show(p->placement(axis)), "  ",
                  show(p->global()), " → ", show(p->box().size), "\n");
  }
  return text;
}

}  // namespace course
