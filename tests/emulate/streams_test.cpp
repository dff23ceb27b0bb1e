// Memory and streams as the emulated GPU sees them: who has waited for whom, which way a copy goes.
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "common/backend/cuda/event.hpp"
#include "tests/emulate/kernels.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;
using cuda::Event;
using cuda::launch;
using cuda::Stream;

namespace {

__global__ void write_all(float* x, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) x[i] = 1;
}
__global__ void read_all(const float* x, float* y, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}

// What a child process prints before it dies of a signal; "" when it does not.
std::string last_words(void (*act)()) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);  // Catch2 hears of the signal too, and says so
    act();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? text : "";
}

}  // namespace

TEST_CASE("emulation: between two streams an event makes the order, and without it the fault is named") {
  Stream compute(0), communication(0);
  OnDevice x(64, compute), y(64, communication);
  launch(write_all, 1, 32, 0, compute, x.data, x.n);
  CHECK_THAT(said([&] { launch(read_all, 1, 32, 0, communication, x.data, y.data, x.n); }),
             Contains("read_all reads what write_all writes on another stream, and nothing makes it wait") &&
                 Contains("streams_test.cpp"));
  Event(compute).holds(communication);
  CHECK(said([&] { launch(read_all, 1, 32, 0, communication, x.data, y.data, x.n); }) == "");
  // Now the other way round: the writer must wait for the reader.
  CHECK_THAT(said([&] { launch(write_all, 1, 32, 0, compute, x.data, x.n); }), Contains("writes what"));
  Event(communication).holds(compute);
  CHECK(said([&] { launch(write_all, 1, 32, 0, compute, x.data, x.n); }) == "");
  cudaStreamSynchronize(compute);
  cudaStreamSynchronize(communication);
}

TEST_CASE("emulation: an event recorded too early is no order") {
  Stream compute(0), communication(0);
  OnDevice x(64, compute), y(64, communication);
  const Event early(compute);
  launch(write_all, 1, 32, 0, compute, x.data, x.n);
  early.holds(communication);
  CHECK_THAT(said([&] { launch(read_all, 1, 32, 0, communication, x.data, y.data, x.n); }),
             Contains("nothing makes it wait"));
  cudaStreamSynchronize(compute);
}

TEST_CASE("emulation: what the host has waited for is done for every stream") {
  Stream one(0), other(0);
  OnDevice x(64, one), y(64, other);
  launch(write_all, 1, 32, 0, one, x.data, x.n);
  cudaStreamSynchronize(one);
  CHECK(said([&] { launch(read_all, 1, 32, 0, other, x.data, y.data, x.n); }) == "");
  cudaStreamSynchronize(other);
}

TEST_CASE("emulation: memory freed on one stream while another works on it is named") {
  Stream compute(0), communication(0);
  float* x = nullptr;
  cudaMallocAsync(reinterpret_cast<void**>(&x), 256, compute);
  Event(compute).holds(communication);
  launch(write_all, 1, 32, 0, communication, x, 64);
  CHECK_THAT(said([&] { cuda::check(cudaFreeAsync(x, compute), "cudaFreeAsync"); }),
             Contains("cudaFreeAsync writes what") && Contains("nothing makes it wait"));
}

TEST_CASE("emulation: a copy goes the way it says, and stays inside") {
  Stream stream(0);
  OnDevice x(64, stream);
  std::vector<float> values(100, 2);
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return said([&] { cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync"); });
  };
  CHECK(copy(x.data, values.data(), 256, cudaMemcpyHostToDevice) == "");
  CHECK_THAT(copy(x.data, values.data(), 256, cudaMemcpyDeviceToHost),
             Contains("said to go from the device to the host goes from the host to the device"));
  CHECK_THAT(copy(values.data(), x.data, 256, cudaMemcpyHostToDevice), Contains("invalid copy direction"));
  CHECK_THAT(copy(x.data, values.data(), 260, cudaMemcpyHostToDevice),
             Contains("a copy of 260 bytes begins 0 bytes into 256 bytes"));
  CHECK_THAT(copy(x.data + 60, values.data(), 20, cudaMemcpyHostToDevice), Contains("begins 240 bytes into 256 bytes"));
}

TEST_CASE("emulation: new memory is no number") {
  Stream stream(0);
  OnDevice x(4, stream);
  std::vector<float> values(4);
  cudaMemcpyAsync(values.data(), x.data, 16, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  for (const float v : values) CHECK(v != v);
}

TEST_CASE("emulation: the host that touches device memory ends with a line") {
  const std::string text = last_words([] {
    Stream stream(0);
    OnDevice x(64, stream);
    *static_cast<volatile float*>(x.data + 3) = 1;
  });
  CHECK_THAT(text, Contains("emulated GPU: the host writes device memory, 12 bytes into 256 bytes"));
}
