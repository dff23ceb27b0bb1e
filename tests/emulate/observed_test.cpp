// A kernel's time is known once it is waited for: seen here as an order between streams that only the host's wait can make.
#include "common/backend/observed.hpp"
#include "tests/emulate/kernels.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using cuda::Stream;

namespace {

__global__ void read_all(const float* x, float* y, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}

}  // namespace

TEST_CASE("observed: who asks for the time of the work waits for it, who asks for its start does not") {
  const Times times = GENERATE(Times::OfStart, Times::OfWork);
  CudaBackend inner(0);
  ObservedBackend backend(inner);
  int told = 0;
  backend.observe([&](const Kernel&) { ++told; }, times);
  Stream other(0);
  OnDevice y(64, other);
  Tensor x = backend.empty({64});
  backend.fill(x, 3);
  const std::string said_of_order =
      said([&] { cuda::launch(read_all, 1, 32, 0, other, x.data<float>(), y.data, y.n); });
  CHECK((said_of_order == "") == (times == Times::OfWork));
  CHECK(told == 1);
  backend.wait();
  cudaStreamSynchronize(other);
}
