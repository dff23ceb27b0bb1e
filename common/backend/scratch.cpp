#include "common/backend/scratch.hpp"

namespace course {

const Scratch& scratch_of(Device device) { return device == Device::Cpu ? cpu_scratch : cuda_scratch; }

}  // namespace course
