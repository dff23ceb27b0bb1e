// A stand-in for the part of CUDA's runtime that this project uses: with it g++ compiles the .cu files, and kernels run on
// the processor. Names and meanings are those of the CUDA Runtime API 13.0 and the CUDA C++ Programming Guide; what is not
// here is not used. See ../README.md for what is checked on the way.
#pragma once

#include <strings.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// ---- the language ----
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ constinit thread_local  // one block runs at a time, on one thread of the processor

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;

// ---- errors ----
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};
const char* cudaGetErrorString(cudaError_t code);  // what was found, where the emulation has more to say than the code
cudaError_t cudaGetLastError();

// ---- devices ----
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device);
cudaError_t cudaDriverGetVersion(int* version);  // 13000 is 13.0; 0 where there is no driver
cudaError_t cudaRuntimeGetVersion(int* version);
struct cudaDeviceProp {
  char name[256];
  int major, minor;  // the compute capability
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceReset();  // also forgets a fault, after which every other call fails

// ---- streams and events ----
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);  // of the processor: it says nothing of a GPU

// ---- memory ----
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
};
using cudaMemPool_t = struct CUmemPool_st*;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);

// ---- kernels ----
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
cudaError_t cudaFuncGetName(const char** name, const void* kernel);

namespace course::emulate {

// Memory that something touches, found by any address inside it.
struct Touch {
  const void* at;
  bool writes;
};
void find_touches(const void* bytes, size_t size, std::vector<Touch>& touches);  // device pointers inside a struct

template <typename T>
void collect(const T& argument, std::vector<Touch>& touches) {
  if constexpr (std::is_pointer_v<T>)
    touches.push_back({argument, !std::is_const_v<std::remove_pointer_t<T>>});
  else if constexpr (std::is_class_v<T>)
    find_touches(&argument, sizeof(T), touches);
}

// `thread` is what each thread does; it holds the arguments, for the kernel may run later.
cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   const std::vector<Touch>& touches, std::function<void()> thread);

// What a thread of a kernel calls; each gives the other threads their turn.
void sync_threads(std::source_location at);
uint64_t exchange(unsigned mask, uint64_t mine, int from_lane, std::source_location at);
unsigned ballot(unsigned mask, bool mine, std::source_location at);
int lane();

template <typename T>
T exchanged(unsigned mask, T mine, int from_lane, std::source_location at) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &mine, sizeof(T));
  bits = exchange(mask, bits, from_lane, at);
  std::memcpy(&mine, &bits, sizeof(T));
  return mine;
}

}  // namespace course::emulate

template <typename... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    std::vector<course::emulate::Touch> touches;
    (course::emulate::collect(*static_cast<P*>(arguments[I]), touches), ...);
    return course::emulate::launch(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream, touches,
                                   [kernel, values = std::tuple<P...>(*static_cast<P*>(arguments[I])...)] {
                                     std::apply(kernel, values);
                                   });
  }(std::index_sequence_for<P...>{});
}

inline void __syncthreads(std::source_location at = std::source_location::current()) {
  course::emulate::sync_threads(at);
}
inline void __syncwarp(unsigned mask = 0xffffffff, std::source_location at = std::source_location::current()) {
  course::emulate::exchange(mask, 0, course::emulate::lane(), at);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int = 32, std::source_location at = std::source_location::current()) {
  return course::emulate::exchanged(mask, value, lane & 31, at);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int = 32,
                  std::source_location at = std::source_location::current()) {
  return course::emulate::exchanged(mask, value, course::emulate::lane() ^ bits, at);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int = 32,
                   std::source_location at = std::source_location::current()) {
  const int from = course::emulate::lane() + static_cast<int>(by);
  return course::emulate::exchanged(mask, value, from > 31 ? course::emulate::lane() : from, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location at = std::source_location::current()) {
  return course::emulate::ballot(mask, predicate != 0, at);
}
inline int __ffs(int word) { return ffs(word); }
