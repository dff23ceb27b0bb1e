// NCCL as a transport: that it does what every Comm does, and goes on beside computation.
#include "common/comm/nccl_comm.hpp"

#include <mpi.h>

#include "common/comm/checked.hpp"
#include "common/comm/mpi_comm.hpp"
#include "tests/common/comm/conforms.hpp"
#include "tests/nccl/nccl_world.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;

namespace {

Tensor counted(float by) {
  return make({6}, [&](int64_t i) { return by * static_cast<float>(i + 1); });
}
// Σ over ranks r of (r+1)·(i+1).
Tensor sum_of_ranks(float factor = 1) {
  const int P = world().size();
  return counted(factor * static_cast<float>(P * (P + 1)) / 2);
}
Tensor of_this_rank() { return counted(static_cast<float>(world().rank() + 1)); }

}  // namespace

TEST_CASE("NCCL conforms") {
  if (!nccl_can_run()) return;
  NcclWorld nccl;
  conforms(*nccl.comm);
}

TEST_CASE("NCCL adds and compares bf16") {
  if (!nccl_can_run()) return;
  NcclWorld nccl;
  const int P = world().size();
  const auto in_bf16 = [](const Tensor& x) {
    Tensor y = backend().empty(x.shape(), DType::BF16);
    backend().cast(x, y);
    return y;
  };
  const auto in_f32 = [](const Tensor& x) {
    Tensor y = backend().empty(x.shape());
    backend().cast(x, y);
    return y;
  };
  Tensor sum = in_bf16(of_this_rank()), most = in_bf16(of_this_rank());
  Tensor shard = in_bf16(backend().zeros({world().rank() == 0 ? 6 : 0}));
  nccl.comm->all_reduce(sum).wait();
  nccl.comm->all_reduce(most, Reduce::Max).wait();
  Counts all_to_first(P, 0);
  all_to_first[0] = 6;
  nccl.comm->reduce_scatter(in_bf16(of_this_rank()), shard, all_to_first).wait();
  CHECK(differs(in_f32(sum), sum_of_ranks()) == "");  // small whole numbers: exact
  CHECK(differs(in_f32(most), counted(static_cast<float>(P))) == "");
  if (world().rank() == 0) CHECK(differs(in_f32(shard), sum_of_ranks()) == "");
}

TEST_CASE("compute goes on beside a collective that is not waited for") {
  if (!nccl_can_run() || world().size() == 1) return;
  NcclWorld nccl;
  Tensor x = of_this_rank(), y = counted(3);
  if (world().rank() == 0) {
    Work sum = nccl.comm->all_reduce(x);
    backend().scale(y, 2);
    CHECK(differs(y, counted(6)) == "");  // the host has it, and the others have not even come
    CHECK_FALSE(sum.test());
    nccl.host->barrier().wait();
    sum.wait();
  } else {
    nccl.host->barrier().wait();
    nccl.comm->all_reduce(x).wait();
  }
  CHECK(differs(x, sum_of_ranks()) == "");
}

TEST_CASE("a wait holds compute's stream, not the host") {
  if (!nccl_can_run() || world().size() == 1) return;
  NcclWorld nccl;
  Tensor x = of_this_rank();
  if (world().rank() > 0) nccl.host->barrier().wait();
  nccl.comm->all_reduce(x).wait();
  backend().scale(x, 2);
  if (world().rank() == 0) nccl.host->barrier().wait();  // comes so far without the others
  CHECK(differs(x, sum_of_ranks(2)) == "");
}

TEST_CASE("memory may go as soon as the work has gone") {
  if (!nccl_can_run()) return;
  NcclWorld nccl;
  for (int round = 0; round < 5; ++round) {
    Tensor x = of_this_rank();
    { const Work sum = nccl.comm->all_reduce(x); }
    Tensor kept = backend().clone(x);
    x = Tensor();
    Tensor other = backend().full({6}, 7);  // where x was, perhaps
    CHECK(differs(kept, sum_of_ranks()) == "");
  }
}

TEST_CASE("checked calls of two groups start in one order over NCCL, whichever is waited for first") {
  if (!nccl_can_run()) return;
  NcclWorld nccl;
  takes_two_groups_in_any_order(*make_checked(std::move(nccl.comm), MPI_COMM_WORLD, nccl.timeout, nullptr), 20);
}

TEST_CASE("a rank that does not come ends the wait for a result on the device") {
  if (!nccl_can_run() || world().size() == 1) return;
  NcclWorld nccl;
  *nccl.timeout = 0.3;
  Tensor x = of_this_rank();
  if (world().rank() == 0) {
    nccl.comm->all_reduce(x).wait();
    const std::string said = words_thrown([&] { backend().to_host(x); });
    CHECK_THAT(said, Contains(cat("waited 0.3 s for all-reduce on nccl world (rank 0 of ", world().size(), ")")) &&
                         Contains("--timeout sets the limit"));
    CHECK_THAT(words_thrown([&] { nccl.comm->all_reduce(x).wait(); }), Contains("waited 0.3 s"));  // it stays dead
  }
  world().barrier().wait();
}

TEST_CASE("a rank that does not connect ends the others' wait") {
  if (!nccl_can_run() || world().size() == 1) return;
  const auto host = make_mpi_comm(MPI_COMM_WORLD, "half a world", std::make_shared<double>(40));
  const auto timeout = std::make_shared<double>(0.3);
  if (world().rank() == 0) {
    // The others take part in what goes over the host, and no further.
    CHECK_THAT(words_thrown([&] { make_nccl_comm(*host, backend(), timeout); }),
               Contains("waited 0.3 s for NCCL's start on half a world"));
  } else {
    host->max(0);
    std::vector<uint8_t> id(128);
    host->broadcast(std::span(id), 0).wait();
  }
  world().barrier().wait();
}
