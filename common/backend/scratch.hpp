// Bytes that a device's kernels take for themselves while they run, beyond their arguments. Who forecasts what a step
// holds needs to know (chapter 10); tests/common/backend/scratch_test.cpp holds the kernels to it. Letters as in
// backend.hpp.
#pragma once

#include "common/backend/shapes.hpp"

namespace course {

struct Scratch {
  int64_t (*rms_norm_backward)(int64_t N, int64_t E);
  int64_t (*attention_backward)(const shapes::AttentionSizes& sizes, DType type);
};

const Scratch& scratch_of(Device device);

extern const Scratch cpu_scratch;   // of as many threads as OpenMP now has
extern const Scratch cuda_scratch;  // all 0 in a build without CUDA

}  // namespace course
