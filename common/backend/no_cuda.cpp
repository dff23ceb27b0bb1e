#include "common/backend/backend.hpp"

namespace course {

int cuda_devices() { return 0; }

std::unique_ptr<Backend> make_cuda_backend(int) {
  throw UsageError("--device cuda: this build has no GPU backend; with a CUDA toolkit and a driver ./course setup makes one that has; use --device cpu");
}

}  // namespace course
