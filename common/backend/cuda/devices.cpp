#include "common/backend/cuda/devices.hpp"

#include <cuda_runtime.h>

#include <cstdlib>

#include "common/backend/backend.hpp"
#include "common/backend/cuda/check.hpp"

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
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it is said here, and no later call shall say it again
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (code != cudaSuccess && driver == 0) return "this machine has no GPU driver";
  if (code == cudaErrorInsufficientDriver)
    return cat("the GPU's driver is for CUDA ", version(driver), " and this build is for CUDA ", version(runtime),
               ": a newer driver or a build with an older toolkit is needed");
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0))
    return visible ? cat("no GPU is seen, with CUDA_VISIBLE_DEVICES=", visible) : "no GPU is seen";
  if (code != cudaSuccess) return cudaGetErrorString(code);
  std::string first, usable;
  for (int device = 0; device < count; ++device) {
    const std::string why = unusable(device);
    if (why.empty()) usable += cat(usable.empty() ? "" : ",", device);
    if (first.empty()) first = why;
  }
  if (first.empty() || usable.empty()) return first;
  return cat(first, visible ? "; take it out of CUDA_VISIBLE_DEVICES" : cat("; CUDA_VISIBLE_DEVICES=", usable, " leaves it out"));
}

}  // namespace cuda

int cuda_devices() {
  int count = 0;
  return cuda::why_no_gpu().empty() && cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string cuda_device_id(int device) {
  char id[32] = {};
  cuda::check(cudaDeviceGetPCIBusId(id, sizeof id, device), "cudaDeviceGetPCIBusId");
  return id;
}

}  // namespace course
