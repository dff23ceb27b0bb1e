// The faults of a kernel that the emulated GPU is there to find, each beside the kernel that has it not.
#include <cstdlib>
#include <vector>

#include "tests/emulate/kernels.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;
using cuda::launch;
using cuda::Stream;

namespace {

std::vector<float> host(const OnDevice& x) {
  std::vector<float> values(x.n);
  cuda::check(cudaMemcpyAsync(values.data(), x.data, x.n * sizeof(float), cudaMemcpyDeviceToHost, x.stream), "copy");
  cuda::check(cudaStreamSynchronize(x.stream), "cudaStreamSynchronize");
  return values;
}

__global__ void number(float* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) x[i] = static_cast<float>(i);
}

__global__ void number_one_more(float* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i <= n) x[i] = static_cast<float>(i);
}

// Each block turns its 64 elements round, through shared memory.
__global__ void reverse(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void reverse_without_barrier(const float* x, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}

__global__ void barrier_of_half(float* x) {
  if (threadIdx.x < 32) __syncthreads();
  x[threadIdx.x] = 1;
}

__global__ void two_barriers(float* x) {
  if (threadIdx.x % 2 == 0)
    __syncthreads();
  else
    __syncthreads();
  x[threadIdx.x] = 1;
}

// The sum of each warp's numbers, in its first lane.
__global__ void warp_sums(const float* x, float* y) {
  float sum = x[threadIdx.x];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = sum;
}

__global__ void shuffle_of_some(float* x) {
  if (threadIdx.x != 5) x[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.0f, 1);
}

// Which of a warp's threads hold more than 40, and where the first of them is, from 1.
__global__ void ballots(const float* x, float* y) {
  const unsigned bits = __ballot_sync(0xffffffff, x[threadIdx.x] > 40);
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = static_cast<float>(__ffs(static_cast<int>(bits)));
  if (threadIdx.x % 32 >= 16) return;
  const unsigned half = __ballot_sync(0x0000ffff, threadIdx.x % 2);
  if (threadIdx.x % 32 == 0) y[2 + threadIdx.x / 32] = static_cast<float>(half);
}

struct alignas(16) FourFloats {
  float at[4];
};
__global__ void copy_fours(const float* x, float* y) {
  *reinterpret_cast<FourFloats*>(y) = *reinterpret_cast<const FourFloats*>(x);
}

template <int n>
__global__ void add(float* x) {
  x[threadIdx.x] += n;
}

__global__ void write_what_is_read(const float* x) { const_cast<float*>(x)[threadIdx.x] = 1; }

}  // namespace

namespace course::cuda {

extern __shared__ float shared[];

}  // namespace course::cuda

namespace {

__global__ void fill_shared(float* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) cuda::shared[i] = static_cast<float>(i);
  __syncthreads();
  if (threadIdx.x == 0) y[0] = cuda::shared[n - 1];
}

struct Pointers {
  float* at[2];
};
__global__ void through_a_struct(Pointers p) { p.at[1][threadIdx.x] = p.at[0][threadIdx.x]; }

}  // namespace

TEST_CASE("emulation: every thread of every block runs, whatever the order") {
  Stream stream(0);
  OnDevice x(1000, stream);
  launch(number, 4, 256, 0, stream, x.data, x.n);
  const auto values = host(x);
  for (int i = 0; i < 1000; ++i) CHECK(values[i] == static_cast<float>(i));
}

TEST_CASE("emulation: a barrier orders the threads of a block; without it the answer is wrong") {
  Stream stream(0);
  OnDevice x(256, stream), y(256, stream);
  launch(number, 1, 256, 0, stream, x.data, x.n);
  const auto right = [&] {
    const auto values = host(y);
    for (int i = 0; i < 256; ++i)
      if (values[i] != static_cast<float>(i / 64 * 64 + 63 - i % 64)) return false;
    return true;
  };
  launch(reverse, 4, 64, 0, stream, x.data, y.data);
  CHECK(right());
  launch(reverse_without_barrier, 4, 64, 0, stream, x.data, y.data);
  CHECK_FALSE(right());
}

TEST_CASE("emulation: a barrier that not all threads reach is reported") {
  Stream stream(0);
  OnDevice x(64, stream);
  CHECK_THAT(said([&] { launch(barrier_of_half, 1, 64, 0, stream, x.data); }),
             Contains("barrier_of_half: ") && Contains("a barrier that not all threads reach") && Contains("has ended") &&
                 Contains("kernel_faults_test.cpp"));
  CHECK_THAT(said([&] { launch(two_barriers, 1, 64, 0, stream, x.data); }),
             Contains("a barrier that not all threads reach") && Contains("waits at kernel_faults_test.cpp"));
}

TEST_CASE("emulation: shuffles give each lane the other's value, and want all lanes of their mask") {
  Stream stream(0);
  OnDevice x(64, stream), y(2, stream);
  launch(number, 1, 64, 0, stream, x.data, x.n);
  launch(warp_sums, 1, 64, 0, stream, x.data, y.data);
  CHECK(host(y) == std::vector<float>{496, 1520});
  CHECK_THAT(said([&] { launch(shuffle_of_some, 1, 64, 0, stream, x.data); }),
             Contains("a shuffle without all lanes of its mask") && Contains("has ended"));
  CHECK_THAT(said([&] { launch(warp_sums, 1, 48, 0, stream, x.data, y.data); }),
             Contains("the mask names lanes that this block has not"));
}

TEST_CASE("emulation: a ballot gives every lane a bit of each") {
  Stream stream(0);
  OnDevice x(64, stream), y(4, stream);
  launch(number, 1, 64, 0, stream, x.data, x.n);
  launch(ballots, 1, 64, 0, stream, x.data, y.data);
  CHECK(host(y) == std::vector<float>{0, 10, 0xaaaa, 0xaaaa});
}

TEST_CASE("emulation: four numbers at once begin where their size divides the address") {
  Stream stream(0);
  OnDevice x(16, stream), y(16, stream);
  launch(number, 1, 16, 0, stream, x.data, x.n);
  CHECK(said([&] { launch(copy_fours, 1, 1, 0, stream, x.data + 4, y.data + 8); }) == "");
  for (const auto& [from, to] : {std::pair{1, 0}, std::pair{0, 2}})
    CHECK_THAT(said([&] { launch(copy_fours, 1, 1, 0, stream, x.data + from, y.data + to); }),
               Contains("touches memory at an address that the access's size does not divide, by thread (0,0,0)"));
}

TEST_CASE("emulation: memory past an allocation, freed, or not among the arguments is not touched") {
  Stream stream(0);
  {
    OnDevice x(1024, stream);
    CHECK_THAT(said([&] { launch(number_one_more, 5, 256, 0, stream, x.data, x.n); }),
               Contains("writes 0 bytes past the end of 4096 bytes") && Contains("of block (4,0,0)"));
    CHECK_THAT(said([&] { launch(write_what_is_read, 1, 4, 0, stream, x.data); }),
               Contains("bytes into 4096 bytes that no argument lets it write"));
    std::vector<float> of_host(8);
    CHECK_THAT(said([&] { launch(number, 1, 8, 0, stream, of_host.data(), 8); }),
               Contains("was given an address of the host"));
  }
  float* gone = nullptr;
  {
    OnDevice x(16, stream);
    gone = x.data;
  }
  CHECK_THAT(said([&] { launch(number, 1, 16, 0, stream, gone, 16); }), Contains("in 64 bytes that were freed"));
  CHECK_THAT(said([&] { cuda::check(cudaFreeAsync(gone, stream), "cudaFreeAsync"); }), Contains("that were freed"));
}

TEST_CASE("a kernel's fault that a later call finds: the words name the kernels started before, and their lines") {
  Stream stream(0);
  OnDevice x(1024, stream);
  setenv("COURSE_EMULATE_FAULTS", "late", 1);
  int line = 0;
  const std::string words = said([&] {
    launch(number, 4, 256, 0, stream, x.data, x.n);
    launch(number_one_more, 5, 256, 0, stream, x.data, x.n), line = __LINE__;
    host(x);
  });
  unsetenv("COURSE_EMULATE_FAULTS");
  CHECK_THAT(words, Contains("copy: ") && Contains("CUDA_LAUNCH_BLOCKING=1") &&
                        Contains(cat("started before: number_one_more (kernel_faults_test.cpp:", line,
                                     "), number (kernel_faults_test.cpp:", line - 1, ")")));
}

TEST_CASE("a kernel's name is what its source calls it") {
  const auto name = [](auto* kernel) { return cuda::name_of_kernel(reinterpret_cast<const void*>(kernel)); };
  CHECK(name(&number) == "number");
  CHECK(name(&add<3>) == "add<3>");
  CHECK(cuda::name_of_kernel(nullptr) == "a kernel");
}

TEST_CASE("emulation: a few bytes past an allocation, inside its page, are found when it is freed") {
  Stream stream(0);
  float* x = nullptr;
  cuda::check(cudaMallocAsync(reinterpret_cast<void**>(&x), 1000 * sizeof(float), stream), "cudaMallocAsync");
  launch(number_one_more, 4, 256, 0, stream, x, 1000);
  CHECK_THAT(said([&] { cuda::check(cudaFreeAsync(x, stream), "cudaFreeAsync"); }),
             Contains("somebody wrote past the end of 4000 bytes"));
}

TEST_CASE("emulation: shared memory is what was asked for, and no more") {
  Stream stream(0);
  OnDevice y(1, stream);
  launch(fill_shared, 2, 32, 40 * sizeof(float), stream, y.data, 40);
  CHECK(host(y)[0] == 39);
  CHECK_THAT(said([&] { launch(fill_shared, 2, 32, 39 * sizeof(float), stream, y.data, 40); }),
             Contains("wrote past its 156 bytes of shared memory"));
  CHECK_THAT(said([&] { launch(fill_shared, 1, 32, 50 << 10, stream, y.data, 40); }),
             Contains("cudaFuncSetAttribute raises it"));
  cuda::check(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10), "attribute");
  CHECK(said([&] { launch(fill_shared, 1, 32, 50 << 10, stream, y.data, 40); }) == "");
}

TEST_CASE("emulation: pointers in a struct are found") {
  Stream stream(0);
  OnDevice x(64, stream), y(64, stream);
  launch(number, 1, 64, 0, stream, x.data, x.n);
  launch(through_a_struct, 1, 64, 0, stream, Pointers{{x.data, y.data}});
  CHECK(host(y) == host(x));
}

TEST_CASE("emulation: a grid or block that no card can start is refused") {
  Stream stream(0);
  OnDevice x(1, stream);
  CHECK_THAT(said([&] { launch(number, 1, 1025, 0, stream, x.data, 1); }), Contains("(1025,1,1) threads"));
  CHECK_THAT(said([&] { launch(number, {1, 70000}, 32, 0, stream, x.data, 1); }),
             Contains("1 by 70000 by 1 blocks") && Contains("kernel_faults_test.cpp"));
  float* data = x.data;  // and by the emulation, where it is asked without launch()
  int64_t n = 1;
  void* arguments[] = {&data, &n};
  CHECK_THAT(said([&] { cuda::check(cudaLaunchKernel(number, dim3(1, 70000), dim3(32), arguments, 0, stream), "number"); }),
             Contains("(1,70000,1) blocks"));
}
