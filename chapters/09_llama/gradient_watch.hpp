// --watch-gradients: how large each parameter's gradient is, step by step, and where the first value that is not finite
// stands.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "chapters/04_sharded_linear/module.hpp"
#include "chapters/09_llama/owners.hpp"

namespace course {

class GradientWatch {
 public:
  // Hooks into every module below `model`, outermost: what a style or FSDP makes of an output is what is looked at.
  // world: all ranks that hold parts of it. Both outlive the watch. Collective.
  GradientWatch(Module& model, Comm& world);

  // Once a step, when its gradients are complete: sums are made, nothing is clipped. True where this step has the first
  // value that is not finite. Collective.
  bool look(int64_t step);
  // Norms of the last look, over all ranks, what is replicated counted once.
  double norm() const;
  double norm(size_t parameter) const;      // in the order of parameters_of
  nlohmann::json json(int64_t step) const;  // {"step": 1, "norm": 1.2, "norms": {"lm_head.weight": 0.3, ...}}
  // The first value that was not finite, in the order of computation: in a forward the module whose output it was, else
  // the parameter whose gradient; with rank, index and step. "" where all were finite. The same on every rank.
  std::string first_bad() const;
  const std::string& first_bad_value() const { return bad_; }  // the same without the step and the words before it
  // The largest and smallest gradients, by their mean norm over the steps.
  std::string table() const;

 private:
  // What this rank's forwards of the step gave. The hooks share it, for they may live longer than the watch.
  struct Outputs {
    int64_t count = 0, bad_at = 0;  // modules so far; the one that was bad
    std::string bad;
  };
  void find(int64_t step);

  Comm* world_;
  Parameters parameters_;
  Owners owners_;
  std::shared_ptr<Outputs> outputs_ = std::make_shared<Outputs>();
  std::vector<double> squares_, sum_of_norms_;
  int64_t looks_ = 0;
  int64_t bad_step_ = 0;
  std::string bad_;
};

// What goes before the place of such a value.
inline constexpr const char* kFirstBad = "first value that is not finite: ";

}  // namespace course
