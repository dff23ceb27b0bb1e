// A table of vectors, one for each id of the vocabulary.
#pragma once

#include <optional>

#include "chapters/04_sharded_linear/module.hpp"

namespace course {

// V vocabulary  E hidden  P ranks of tp
//   ids [...] i32   weight [V,E]   y [...,E]
// Cut by rows (RowwiseParallel) a rank holds weight [V/P,E] and gives zeros for ids of other ranks, so that the sum
// over ranks is the whole; cut by columns (ColwiseParallel) it holds weight [V,E/P] and gives y [...,E/P]. Backward
// returns a tensor without elements: ids have no gradient. An id outside 0..V-1 is the same Error at every cut. Starts
// as N(0,1).
// padding: an id whose row never learns, whichever rank holds it (PyTorch's padding_idx, which also starts it at 0). It
// counts in the whole vocabulary, not in a rank's part; throws SharedError where it lies outside.
class Embedding : public Module {
 public:
  Embedding(Backend& backend, int64_t vocabulary, int64_t hidden, std::optional<int64_t> padding = std::nullopt);
  std::string kind() const override { return "Embedding"; }

  Parameter& weight;

 private:
  DTensor run_forward(DTensor ids) override;
  DTensor run_backward(DTensor dy) override;
  std::optional<int64_t> padding_;
  DTensor ids_;
};

}  // namespace course
