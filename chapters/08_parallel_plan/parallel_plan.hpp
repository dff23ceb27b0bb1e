// A plan: which module gets which style. It is data, and the model knows nothing of it.
//
//   const ParallelPlan plan = {{"layers.*.mlp.gate_proj", ColwiseParallel()},
//                              {"layers.*.mlp.down_proj", RowwiseParallel().output(Shard(1))}};
//   parallelize_module(model, mesh["tp"], plan);
//   check_plan(model, mesh["tp"], plan);
//   session.out() << show_tree(model, "tp");
//
// https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html (parallelize_module)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chapters/04_sharded_linear/parallel_style.hpp"

namespace course {

struct PlanEntry {
  // A module's path below the root, token by token between dots. In a token * stands for any text, ? for a letter, [ab]
  // for one of these (POSIX fnmatch); none of them crosses a dot. "" is the root itself.
  std::string pattern;
  std::shared_ptr<const ParallelStyle> style;

  template <typename Style>
  PlanEntry(std::string pattern, Style style)
      : pattern(std::move(pattern)), style(std::make_shared<Style>(std::move(style))) {}
  PlanEntry(std::string pattern, std::shared_ptr<const ParallelStyle> style)
      : pattern(std::move(pattern)), style(std::move(style)) {}
};

using ParallelPlan = std::vector<PlanEntry>;

bool matches(const std::string& pattern, const std::string& path);

// Applies each style to the modules that its pattern matches. No communication. Before the parameters are filled.
// Throws SharedError for a mesh that is not 1-D, a pattern that matches nothing, a module that is styled twice, a style
// that does not fit its module: where PyTorch is partly silent. All but the last are found before any module is
// touched.
void parallelize_module(Module& root, const DeviceMesh& tp, const ParallelPlan& plan);

// Whether the plan took: every module that it names wears its style, and the ranks together hold each parameter, one
// that is cut once between them, one that is replicated once on each. One small all-reduce of counts; every rank of tp
// calls. Throws SharedError that names the first module or parameter for which that is not so.
void check_plan(Module& root, const DeviceMesh& tp, const ParallelPlan& plan);

// The entries, a line each: pattern and style.
std::string show_plan(const ParallelPlan& plan);

// The tree of modules: each one's style, and each parameter's placement on `axis` (and its gradient's where that
// differs), global shape and shape on this rank.
std::string show_tree(Module& root, const std::string& axis);

}  // namespace course
