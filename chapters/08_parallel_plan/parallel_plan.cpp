#include "chapters/08_parallel_plan/parallel_plan.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "common/support/session.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

std::vector<std::string> tokens_of(const std::string& path) {
  // exercise match {
  std::vector<std::string> tokens;
  if (path.empty()) return tokens;
  size_t begin = 0;
  for (size_t dot; (dot = path.find('.', begin)) != std::string::npos; begin = dot + 1)
    tokens.push_back(path.substr(begin, dot - begin));
  tokens.push_back(path.substr(begin));
  return tokens;
  // } exercise
}

bool token_matches(const std::string& pattern, const std::string& token) {
  return fnmatch(pattern.c_str(), token.c_str(), 0) == 0;
}

std::string quoted(const std::string& path) { return path.empty() ? "the root" : "'" + path + "'"; }

// How far the pattern goes before it matches nothing, and what stands there.
std::string nearest(Module& root, const std::string& pattern) {
  Module* at = &root;
  std::string path;
  for (const auto& token : tokens_of(pattern)) {
    const auto& children = at->children();
    const auto found = std::find_if(children.begin(), children.end(),
                                    [&](const auto& child) { return token_matches(token, child.first); });
    if (found == children.end()) break;
    path += (path.empty() ? "" : ".") + found->first;
    at = found->second.get();
  }
  std::string names;
  for (const auto& [name, child] : at->children()) names += (names.empty() ? "" : ", ") + name;
  return cat("below ", quoted(path), names.empty() ? " there is nothing" : " there are ", names);
}

}  // namespace

bool matches(const std::string& pattern, const std::string& path) {
  // exercise match {
  const auto wanted = tokens_of(pattern), given = tokens_of(path);
  return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(), token_matches);
  // } exercise
}

void parallelize_module(Module& root, const DeviceMesh& tp, const ParallelPlan& plan) {
  require_shared(tp.dims() == 1, "parallelize_module takes a mesh of one axis, not ", tp.show(), ": pass mesh[\"tp\"]");
  const auto modules = named_modules(root);
  std::vector<const PlanEntry*> entry_of(modules.size(), nullptr);
  for (const auto& entry : plan) {
    bool found = false;
    for (size_t i = 0; i < modules.size(); ++i) {
      const auto& [path, module] = modules[i];
      if (!matches(entry.pattern, path)) continue;
      found = true;
      require_shared(!entry_of[i], "module ", quoted(path), " is styled twice: by plan entry '",
                     entry_of[i] ? entry_of[i]->pattern : "", "' and by '", entry.pattern, "'");
      require_shared(!module->styled(), "plan entry '", entry.pattern, "': module ", quoted(path),
                     " is styled twice: ", module->style(), ", then ", entry.style->show());
      entry_of[i] = &entry;
    }
    require_shared(found, "plan entry '", entry.pattern, "' matches no module of this ", root.kind(), ": ",
                   nearest(root, entry.pattern));
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!entry_of[i]) continue;
    try {
      entry_of[i]->style->apply(*modules[i].module, tp);
    } catch (const Error& error) {
      throw SharedError(
          cat("plan entry '", entry_of[i]->pattern, "' at module ", quoted(modules[i].path), ": ", error.what()));
    }
  }
}

void check_plan(Module& root, const DeviceMesh& tp, const ParallelPlan& plan) {
  const std::string& axis = tp.name(0);
  for (const auto& [path, module] : named_modules(root))
    for (const auto& entry : plan)
      if (matches(entry.pattern, path))
        require_shared(module->style() == entry.style->show(), "the plan did not take: module ", quoted(path),
                       " is to be ", entry.style->show(), ", it ",
                       module->styled() ? "is " + module->style() : "has no style");
  const Parameters parameters = parameters_of(root);
  std::vector<int64_t> held;
  for (const Parameter* p : parameters) held.push_back(numel(p->box().size));
  tp.comm().all_reduce(std::span(held)).wait();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = *parameters[i];
    const int64_t copies = is_replicate(p.placement(axis)) ? tp.size() : 1;
    require_shared(held[i] == copies * numel(p.global()), "the plan did not take: ", p.name(), " is ",
                   show(p.placement(axis)), " on ", tp.show(), ", and its ranks hold ", held[i], " numbers of ",
                   show(p.global()));
  }
}

std::string show_plan(const ParallelPlan& plan) {
  Table table({"module", "style"});
  for (const auto& entry : plan) table.row(entry.pattern.empty() ? "(the root)" : entry.pattern, entry.style->show());
  return table.str();
}

std::string show_tree(Module& root, const std::string& axis) {
  parameters_of(root);  // names them
  std::string text;
  for (const auto& [path, module] : named_modules(root)) {
    const auto depth = tokens_of(path).size();
    const std::string indent(2 * depth, ' ');
    const std::string name = path.empty() ? module->kind() : tokens_of(path).back();
    text += cat(indent, name, module->styled() ? "  " + module->style() : "", "\n");
    for (const auto& p : module->own_parameters()) {
      const Placement value = p->placement(axis), grad = p->grad_placement(axis);
      text += cat(indent, "  · ", tokens_of(p->name()).back(), " ", show(value),
                  value == grad ? "" : ", gradient " + show(grad), "  ", show(p->global()), " → ", show(p->box().size),
                  "\n");
    }
  }
  return text;
}

}  // namespace course

// Exercise 08 match
// Task: Write matches(pattern, path): whether a plan's pattern names a module's path. Both are tokens between dots; a
// token of the pattern may hold *, ? and [ab], which token_matches() knows, and none of them crosses a dot. Write
// tokens_of as well; "" has no token, for it is the root itself.
// Hint: cut both at the dots first; then token i of the one belongs to token i of the other.
// Hint: a pattern that is shorter than the path names a module further up, not this one.
// Why: A plan is applied to what it matches and to nothing else. A * that crosses dots, or a pattern that is content
// with the front of a path, styles modules that nobody meant; one that matches too little gets a warning in PyTorch (older
// versions: nothing), and an error here.
// Wrong star_crosses_dots: A * takes dots too, so layers.*.weight names what lies several levels below. Match token by
// token.
//   - const auto wanted = tokens_of(pattern), given = tokens_of(path);
//   - return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(), token_matches);
//   + return token_matches(pattern, path);
// Wrong front_is_enough: A pattern matches all that lies below what it names. The numbers of tokens must be equal.
//   - return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(), token_matches);
//   + return wanted.size() <= given.size() && std::equal(wanted.begin(), wanted.end(), given.begin(), token_matches);
// Wrong end_is_enough: A pattern matches any path that ends with it. It begins at the root.
//   - return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(), token_matches);
//   + return wanted.size() <= given.size() && std::equal(wanted.begin(), wanted.end(), given.end() - std::ssize(wanted), token_matches);
// Wrong no_wildcards: The tokens are compared letter by letter: *, ? and [ab] are taken for themselves.
//   - return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(), token_matches);
//   + return wanted == given;
// Wrong root_has_a_token: "" is cut into one empty token, which a * matches: the pattern * then names the root.
//   - if (path.empty()) return tokens;
//   - size_t begin = 0;
//   + size_t begin = 0;
