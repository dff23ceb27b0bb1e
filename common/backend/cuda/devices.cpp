#include "common/backend/cuda/devices.hpp"

#include <cuda_runtime.h>

#include <cstdlib>

#include "common/backend/backend.hpp"
#include "common/check.hpp"

namespace course {
namespace cuda {
namespace {

std::string version(int number) { return cat(number / 1000, ".", number % 1000 / 10); }

std::string unusable(int device) {
  cudaDeviceProp card{};
  if (const cudaError_t code = cudaGetDeviceProperties(&card, device); code != cudaSuccess)
    return cudaGetErrorString(code);
  if (10 * card.major + card.minor >= kLeastCapability) return "";
  return cat("GPU ", device, ", ", card.name, ", has compute capability ", card.major, ".", card.minor,
             ", at the least ", kLeastCapability / 10, ".", kLeastCapability % 10, " is needed");
}

}  // namespace

std::string why_no_gpu() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it is said here, and no later call shall say it again
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (code != cudaSuccess && driver == 0) return "this machine has no GPU driver";
  if (code == cudaErrorInsufficientDriver)
    return cat("the GPU's driver is for CUDA ", version(driver), " and this build is for CUDA ", version(runtime),
               ": a newer driver or a build with an older toolkit is needed");
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible ? cat("no GPU is seen, with CUDA_VISIBLE_DEVICES=", visible) : "no GPU is seen";
  }
  if (code != cudaSuccess) return cudaGetErrorString(code);
  for (int device = 0; device < count; ++device)
    if (const std::string why = unusable(device); !why.empty()) return why;
  return "";
}

}  // namespace cuda

int cuda_devices() {
  int count = 0;
  return cuda::why_no_gpu().empty() && cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace course
