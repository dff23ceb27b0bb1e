#include "common/backend/backend.hpp"

namespace course {

std::unique_ptr<Backend> make_cuda_backend() {
  throw UsageError("--device cuda: this build has no CUDA; use --device cpu");
}

}  // namespace course
