// What the emulated NCCL finds, and NCCL itself does not say: it hangs, or gives other numbers.
#include <nccl.h>

#include "common/backend/cuda/event.hpp"
#include "tests/nccl/nccl_world.hpp"
#include "tests/emulate/kernels.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;
using cuda::launch;
using cuda::Stream;

namespace {

__global__ void add_one(float* x, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) x[i] += 1;
}

// A communicator of this rank alone, which blocks.
struct Alone {
  Alone() {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, nullptr) == ncclSuccess);
  }
  ~Alone() { ncclCommDestroy(comm); }
  ncclComm_t comm = nullptr;
};

}  // namespace

TEST_CASE("emulated NCCL: a kernel that does not wait for a collective is named") {
  Alone alone;
  Stream compute(0), communication(0);
  OnDevice x(64, compute);
  launch(add_one, 1, 32, 0, compute, x.data, x.n);
  const auto all_reduce = [&] { return ncclAllReduce(x.data, x.data, x.n, ncclFloat32, ncclSum, alone.comm, communication); };
  CHECK(all_reduce() == ncclUnhandledCudaError);  // it did not wait for the kernel
  CHECK_THAT(ncclGetLastError(alone.comm), Contains("ncclAllReduce writes what") && Contains("nothing makes it wait"));
  cudaDeviceReset();
}

TEST_CASE("emulated NCCL: between a kernel and a collective an event makes the order, both ways") {
  Alone alone;
  Stream compute(0), communication(0);
  OnDevice x(64, compute);
  launch(add_one, 1, 32, 0, compute, x.data, x.n);
  cuda::Event(compute).holds(communication);
  CHECK(ncclAllReduce(x.data, x.data, x.n, ncclFloat32, ncclSum, alone.comm, communication) == ncclSuccess);
  CHECK_THAT(said([&] { launch(add_one, 1, 32, 0, compute, x.data, x.n); }),
             Contains("writes what ncclAllReduce writes on another stream, and nothing makes it wait"));
  cuda::Event(communication).holds(compute);
  CHECK(said([&] { launch(add_one, 1, 32, 0, compute, x.data, x.n); }) == "");
  cudaStreamSynchronize(compute);
}

TEST_CASE("emulated NCCL: memory of the host, past the end or freed is refused") {
  Alone alone;
  Stream stream(0);
  float on_host[8] = {}, *gone = nullptr;
  OnDevice x(8, stream);
  cudaMallocAsync(reinterpret_cast<void**>(&gone), 32, stream);
  cudaFreeAsync(gone, stream);
  const auto sum = [&](const float* in, float* out, size_t n) {
    const ncclResult_t result = ncclAllReduce(in, out, n, ncclFloat32, ncclSum, alone.comm, stream);
    return result == ncclInvalidArgument ? std::string(ncclGetLastError(alone.comm)) : ncclGetErrorString(result);
  };
  CHECK(sum(x.data, x.data, 8) == "no error");
  CHECK_THAT(sum(on_host, x.data, 8), Contains("what is sent: 32 bytes lie in the host's memory"));
  CHECK_THAT(sum(x.data, on_host, 8), Contains("what is received: 32 bytes lie in the host's memory"));
  CHECK_THAT(sum(x.data, x.data, 9), Contains("36 bytes begin 0 bytes into 32 bytes"));
  CHECK_THAT(sum(gone, x.data, 8), Contains("32 bytes that were freed"));
}

TEST_CASE("emulated NCCL: a communicator that is over, or not there yet, is refused") {
  Stream stream(0);
  OnDevice x(8, stream);
  const auto sum = [&](ncclComm_t comm) { return ncclAllReduce(x.data, x.data, 8, ncclFloat32, ncclSum, comm, stream); };
  ncclComm_t gone = nullptr;
  {
    Alone alone;
    gone = alone.comm;
  }
  CHECK(sum(gone) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(gone), Contains("was destroyed"));
  CHECK(ncclCommDestroy(gone) == ncclInvalidArgument);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  CHECK(sum(comm) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(comm), Contains("before its last operation is done"));
  ncclResult_t state = ncclInProgress;
  ncclCommGetAsyncError(comm, &state);
  CHECK(state == ncclSuccess);
  // The stream has a collective only when it is no longer under way: an event before that is too early.
  CHECK(sum(comm) == ncclInProgress);
  cuda::Event early(stream);
  CHECK(sum(comm) == ncclInvalidArgument);
  ncclCommGetAsyncError(comm, &state);
  CHECK(state == ncclSuccess);
  Stream other(0);
  early.holds(other);
  CHECK_THAT(said([&] { launch(add_one, 1, 32, 0, other, x.data, x.n); }), Contains("what ncclAllReduce writes"));
  ncclCommDestroy(comm);
}

TEST_CASE("emulated NCCL: ranks that mean different calls are told so") {
  const int r = world().rank(), P = world().size();
  if (P == 1) return;
  const auto told = [&](const std::function<Work(Comm&, Tensor&, Tensor&)>& call) {
    NcclWorld nccl;
    Tensor x = backend().full({12}, 1), y = backend().full({4}, 1);
    const std::string words = words_thrown([&] {
      call(*nccl.comm, x, y).wait();
      backend().to_host(x);
    });
    world().barrier().wait();
    return words;
  };
  CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor& y) { return comm.all_reduce(r == 0 ? x : y); }),
             Contains("all-reduce on nccl world") &&
                 Contains(cat("rank ", r, " ncclAllReduce of ", r == 0 ? 12 : 4, " float32, sum")));
  Tensor ids = backend().empty({12}, DType::I32);
  CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor&) { return comm.all_reduce(r == 0 ? x : ids); }),
             Contains("int32") && Contains("float32"));
  CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor& y) {  // the order
               Work first = comm.all_reduce(r == 0 ? x : y), second = comm.all_reduce(r == 0 ? y : x);
               second.wait();
               return first;
             }),
             Contains("call 2: rank") && Contains("of 12 float32") && Contains("of 4 float32"));  // NcclWorld made call 1
  CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor&) { return comm.broadcast(x, r == 0 ? 0 : 1); }),
             Contains("root 0") && Contains("root 1"));
  CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor&) { return r == 0 ? comm.all_reduce(x) : comm.broadcast(x, 0); }),
             Contains("ncclAllReduce") && Contains("ncclBroadcast"));
  if (P == 2) {
    const Tensor part = backend().full({r == 0 ? 3 : 1}, 1);
    Tensor whole = backend().empty({r == 0 ? 4 : 3});
    // Two broadcasts in a group, of 3 and 1 on rank 0, of 2 and 1 on rank 1: the first is wrong.
    const Counts counts = r == 0 ? Counts{3, 1} : Counts{2, 1};
    CHECK_THAT(told([&](Comm& comm, Tensor&, Tensor&) { return comm.all_gather(part, whole, counts); }),
               Contains(cat("call 2: rank ", 1 - r, " calls ncclBroadcast of ", r == 0 ? 2 : 3, " float32, root 0")));
    CHECK_THAT(told([&](Comm& comm, Tensor& x, Tensor& y) { return r == 0 ? comm.send(x, 1) : comm.recv(y, 0); }),
               r == 0 ? Contains("ncclRecv of 4 float32") : Contains("ncclSend of 12 float32"));
  }
}

TEST_CASE("emulated NCCL: a rank that has ended ends the others' wait") {
  if (world().size() == 1) return;
  const bool leaves = world().rank() == world().size() - 1;
  NcclWorld nccl;
  if (leaves) *nccl.timeout = 0.2;
  Tensor x = backend().full({12}, 1);
  if (leaves) {
    nccl.comm.reset();  // gives up waiting for the others' end
  } else {
    nccl.comm->all_reduce(x).wait();
    CHECK_THAT(words_thrown([&] { backend().to_host(x); }),
               Contains("remote process exited") && Contains(cat("rank ", world().size() - 1, " has left")));
  }
  world().barrier().wait();
}

TEST_CASE("emulated NCCL: two ranks on one GPU are refused, unless each is said to be a host of its own") {
  if (world().size() == 1) return;
  CudaBackend first(0);
  const auto connect = [&](Comm& host) { return make_nccl_comm(host, first, std::make_shared<double>(40)); };
  const auto host = make_mpi_comm(MPI_COMM_WORLD, "one card", std::make_shared<double>(40));
  CHECK_THAT(words_thrown([&] { connect(*host); }),
             Contains("invalid usage: duplicate GPU: ranks 0 and 1 are both on CUDA device 0000:01:00.0") &&
                 Contains("--nccl off"));
  let_ranks_share_a_gpu(world().rank(), true);
  {
    const auto shared = connect(*host);
    Tensor x = first.full({5}, 2);
    shared->all_reduce(x).wait();
    CHECK(first.to_host(x) == std::vector<float>(5, static_cast<float>(2 * world().size())));
  }
  for (const char* set : {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_HOSTID", "NCCL_NET", "NCCL_SOCKET_IFNAME", "NCCL_MAX_CTAS",
                          "NCCL_NVLS_ENABLE"}) {
    CHECK(std::getenv(set) != nullptr);
    unsetenv(set);
  }
}
