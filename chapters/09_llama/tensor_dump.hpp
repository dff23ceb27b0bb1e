// --dump-tensors DIR: what a step was made of, one file a step, for ./course diff.
//
//   DIR/step-00000001.safetensors    loss [1] f64; grad.NAME and weight.NAME f32, each whole, by the parameter's name
#pragma once

#include <string>

#include "chapters/09_llama/owners.hpp"

namespace course {

class TensorDump {
 public:
  // Makes the folder on rank 0. Throws SharedError where it cannot be written or holds an earlier run's files, unless
  // this run goes on with them, and for models of more than 20 million parameters: rank 0 holds all of it twice.
  // Collective.
  TensorDump(std::string dir, const Parameters& parameters, Comm& world, bool goes_on);

  // The gradients of this step: complete, not clipped. Collective.
  void gradients();
  // The weights after it; writes the file. Collective.
  void write(int64_t step, double loss);

 private:
  // All of parameter i's tensor on rank 0, nothing elsewhere.
  std::vector<float> whole(size_t i, const Tensor& part);

  std::string dir_;
  Parameters parameters_;
  Comm* world_;
  Owners owners_;
  std::vector<std::vector<float>> gradients_;
};

}  // namespace course
