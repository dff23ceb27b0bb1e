// What is left to do with the gradients once backward is over, before the optimizer steps.
#pragma once

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

// Sums the gradients that are still Partial over tp (the norms' under sequence parallelism: each rank saw its rows only): all
// of them packed in one all-reduce, so one call a step whatever the number of layers. Collective over tp. After FSDP has
// reduced over dp, if it does.
void finish_gradients(const Parameters& parameters, const DeviceMesh& tp);

}  // namespace course
