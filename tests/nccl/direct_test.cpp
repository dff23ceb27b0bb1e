// CUDA-aware MPI: what it is handed, and when. There is none to run it with.
#include "common/comm/direct.hpp"

#include <unistd.h>

#include "common/backend/cuda/cuda_backend.hpp"
#include "tests/nccl/nccl_world.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

// In the place of MPI: writes down the call, and whether the device was still at work.
class Noted : public CommDecorator {
 public:
  Noted(Comm& inner, cudaStream_t compute, std::vector<Call>& calls, int& too_early)
      : CommDecorator(inner), compute_(compute), calls_(calls), too_early_(too_early) {}
  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at) override {
    return inner().split(color, key, name, at);
  }
  Work start(const Call& call) override {
    calls_.push_back(call);
    too_early_ += cudaStreamQuery(compute_) != cudaSuccess;
    return {};
  }

 private:
  cudaStream_t compute_;
  std::vector<Call>& calls_;
  int& too_early_;
};

}  // namespace

TEST_CASE("MPI that takes a GPU's memory is handed it when the kernels before are done") {
  if (!nccl_can_run() || world().size() == 1) return;
  NcclWorld nccl;
  CudaBackend own(world().rank());
  std::vector<Call> calls;
  int too_early = 0;
  Direct direct(std::make_unique<Noted>(*nccl.host, own.stream(), calls, too_early), own);
  Tensor x = own.full({5}, 1);
  auto comm = make_nccl_comm(*nccl.host, own, nccl.timeout);
  if (world().rank() > 0) usleep(50'000);  // the stream has to wait for it
  comm->all_reduce(x).wait();
  own.scale(x, 2);
  direct.all_reduce(x).wait();
  std::vector<double> on_host(3);
  direct.all_reduce(std::span(on_host)).wait();
  Tensor in_half = own.in_type(own.full({5}, 1), DType::BF16);
  direct.all_reduce(in_half).wait();
  CHECK(too_early == 0);
  CHECK(calls.size() == 3);
  CHECK(calls[0].in.data == x.raw());
  CHECK(calls[0].in.device == Device::Cuda);
  CHECK(calls[1].in.data == on_host.data());
  CHECK(calls[2].in.device == Device::Cpu);  // bf16 is added on the host
}
