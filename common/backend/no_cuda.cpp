#include "common/backend/backend.hpp"

namespace course {

int cuda_devices() { return 0; }

std::string cuda_device_id(int) { return ""; }

std::unique_ptr<Backend> make_cuda_backend(int, bool) {
  throw UsageError("--device cuda: this build has no CUDA; use --device cpu");
}

}  // namespace course
