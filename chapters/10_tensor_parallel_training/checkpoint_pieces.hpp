// What one rank wants of a tensor, out of the pieces in which any number of ranks saved it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"
#include "common/support/safetensors.hpp"

namespace course {

// The values of tensor.box, row-major. `folder` is the checkpoint's; `files` are those that are open, by the name in a piece:
// what is opened here is put there. Throws Error, with the path, for pieces that do not cover the box, and for one that is of
// another shape than the tensor or its box, is not f32, or has another hash than the index says.
std::vector<float> read_part(const std::string& folder, const CheckpointTensor& tensor, const std::vector<PieceRef>& pieces,
                             std::map<std::string, SafetensorsFile>& files);

}  // namespace course
