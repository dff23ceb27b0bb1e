// Recomputation, also called activation checkpointing: a layer keeps its input alone, and runs its forward again when
// backward comes. Memory of one layer for that of all, for a third more work. Chen et al., arXiv:1604.06174
//
//   forward    keep x; run the layer, which keeps nothing for backward
//   backward   run the layer on x once more, now it keeps what it needs; then its backward
#pragma once

#include "chapters/09_llama/llama.hpp"

namespace course {

// Makes this module recompute, by hooks. The second forward makes the module's collectives once more, in the same order on
// every rank, and gives the same bits. Call it before fully_shard (chapter 12): FSDP's hooks then lie outside, and the
// weights that they gather for backward serve the second forward too. Once a module.
void recompute_in_backward(Module& module);

// `what` is the flag's value: "none", or "layer" for each decoder layer.
void recompute(Llama& llama, const std::string& what);

}  // namespace course
