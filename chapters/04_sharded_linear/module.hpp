// A module: a forward, a backward that undoes it step by step, and four points where others may hook in. Parallel
// styles and FSDP are hooks; the module itself reads like serial code.
//
//   before_forward → run_forward → after_forward          before_backward → run_backward → after_backward
//
// The hooks installed last are outermost: first before, last after. There is no tape: each module keeps what its
// backward needs from its last forward, and moves it out again. Gradients add up in the parameters until they are
// cleared.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/03_device_mesh/dtensor.hpp"
#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

using Hook = std::function<DTensor(DTensor)>;

struct Hooks {
  Hook before_forward, after_forward, before_backward, after_backward;  // an empty one is skipped
};

class Module {
 public:
  explicit Module(Backend& backend) : backend_(&backend) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;

  DTensor forward(DTensor x);
  // The gradient of the last forward's output in, that of its input out. Once a forward.
  DTensor backward(DTensor dy);

  // The forward between the hooks of this module (its children's run as always): for a hook that runs it once more.
  DTensor body(DTensor x) { return run_forward(std::move(x)); }

  virtual std::string kind() const = 0;  // "Linear"
  void wrap(Hooks hooks) { hooks_.push_back(std::move(hooks)); }
  bool styled() const { return !style_.empty(); }
  const std::string& style() const { return style_; }  // what parallelize_module made of it, "" before
  void set_style(std::string style);                   // throws SharedError the second time

  // While off, forward keeps nothing for a backward: validation and generation.
  void set_training(bool on);
  bool training() const { return training_; }

  Backend& backend() const { return *backend_; }
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const { return children_; }
  const std::vector<std::unique_ptr<Parameter>>& own_parameters() const { return parameters_; }

 protected:
  template <typename M>
  M& add(const std::string& name, std::unique_ptr<M> child) {
    M& added = *child;
    children_.emplace_back(name, std::move(child));
    return added;
  }
  Parameter& add_parameter(const std::string& name, Shape global, Init init);
  // x, or nothing while not training.
  DTensor keep(const DTensor& x) const { return training_ ? x : DTensor(); }

 private:
  virtual DTensor run_forward(DTensor x) = 0;
  virtual DTensor run_backward(DTensor dy) = 0;

  Backend* backend_;
  std::vector<Hooks> hooks_;
  std::string style_;
  bool training_ = true;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

struct NamedModule {
  std::string path;  // "layers.0.mlp", "" for the root
  Module* module;
};

// The root first, then its children depth first, in the order they were added.
std::vector<NamedModule> named_modules(Module& root);
// All parameters, in the same order, each renamed to its path: "layers.0.mlp.up_proj.weight". One that a root further
// up has named keeps that longer name, so that asking a part of a model takes no name away from the whole.
Parameters parameters_of(Module& root);

// Parameter::compute_in for every parameter: activations take the type of the weights.
void compute_in(Module& root, DType type);
// Fills every parameter with its initial values.
void initialize(Module& root, uint64_t seed);
void clear_gradients(Module& root);

}  // namespace course
