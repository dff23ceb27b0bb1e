#include "common/comm/pieces.hpp"

#include <mpi.h>

#include <limits>

#include "common/chunk.hpp"
#include "common/comm/mpi_comm.hpp"
#include "common/comm/staged.hpp"
#include "tests/common/comm/conforms.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

constexpr int64_t kInt = std::numeric_limits<int>::max();

std::vector<int64_t> sizes(int64_t n, int64_t limit) {
  std::vector<int64_t> all;
  for (const Piece& piece : pieces(n, limit)) all.push_back(piece.size);
  return all;
}

std::unique_ptr<Comm> in_pieces_of(int64_t limit) {
  auto comm = make_mpi_comm(MPI_COMM_WORLD, cat("pieces of ", limit), std::make_shared<double>(40), limit);
  return std::make_unique<Staged>(std::move(comm), backend());
}

// A call on memory that is not there: for the arithmetic alone.
Elements nowhere(int64_t count, DType type = DType::F32) { return {nullptr, count, type, Device::Cpu}; }
int64_t bytes_from_begin(const Elements& x) { return static_cast<char*>(x.data) - static_cast<char*>(nullptr); }

// Numbers that differ by rank and place, whose sums are exact.
std::vector<float> numbers(int rank, int64_t n) {
  std::vector<float> all(n);
  for (int64_t i = 0; i < n; ++i) all[i] = static_cast<float>((i * 7 + rank * 13) % 1001);
  return all;
}

}  // namespace

TEST_CASE("B47: what an int cannot count goes in pieces") {
  using Sizes = std::vector<int64_t>;
  CHECK(sizes(2501, 1000) == Sizes{1000, 1000, 501});
  CHECK(sizes(2000, 1000) == Sizes{1000, 1000});
  CHECK(sizes(0, 1000).empty());
  CHECK(sizes((int64_t{1} << 31) + 8, kInt) == Sizes{kInt, 9});
  CHECK(sizes(int64_t{1} << 29, kInt) == Sizes{int64_t{1} << 29});
  CHECK(pieces(2501, 1000).back() == Piece{2000, 501});
  CHECK_THROWS_AS(pieces(-1, 1000), Error);
  CHECK_THROWS_AS(pieces(5, 0), Error);
}

TEST_CASE("B47: a displacement of 3·2^30 is one of bytes in 64 bits") {
  constexpr int64_t kFirst = int64_t{3} << 30, kMore = 10;
  for (const Op op : {Op::AllGather, Op::ReduceScatter}) {
    Call call{op, nowhere(op == Op::AllGather ? kMore : kFirst + kMore),
              nowhere(op == Op::AllGather ? kFirst + kMore : kMore), Site::current()};
    call.counts = {kFirst, kMore};
    REQUIRE(needs_pieces(call, kInt));
    const auto calls = in_pieces(call, 1, kInt);
    REQUIRE(calls.size() == 3);
    const auto whole = [&](size_t i) { return calls[i].whole(); };
    CHECK(calls[0].counts == Counts{kInt, 0});
    CHECK(calls[1].counts == Counts{kFirst - kInt, 0});
    CHECK(calls[2].counts == Counts{0, kMore});
    CHECK(bytes_from_begin(whole(1)) == 4 * kInt);
    CHECK(bytes_from_begin(whole(2)) == 4 * kFirst);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(whole(i).count <= kInt);
      const Elements& mine = op == Op::AllGather ? calls[i].in : calls[i].out;
      CHECK(mine.count == calls[i].counts[1]);
    }
  }
}

TEST_CASE("B47: within the limit a call stays one") {
  Call call{Op::Broadcast, nowhere(1000), nowhere(1000), Site::current()};
  CHECK_FALSE(needs_pieces(call, 1000));
  CHECK(in_pieces(call, 0, 1000).size() == 1);
  call.in.count = call.out.count = 1001;
  CHECK(in_pieces(call, 0, 1000).size() == 2);
}

TEST_CASE("B47: a comm that works in pieces conforms") {
  conforms(*in_pieces_of(37));
}

TEST_CASE("B47: in pieces of 1000 the results are those of one call") {
  const auto comm = in_pieces_of(1000);
  const int P = world().size(), r = world().rank();
  for (const int64_t n : {2501, 2000, 0}) {
    INFO(n << " elements on " << P << " ranks");
    const std::vector<float> mine = numbers(r, n);
    const auto both = [&](const Shape& shape, const std::vector<float>& from,
                          const std::function<void(Comm&, Tensor&)>& call) {
      Tensor one = backend().from_host(from, shape), several = backend().clone(one);
      call(world(), one);
      call(*comm, several);
      CHECK(differs(several, one) == "");
    };
    both({n}, mine, [](Comm& c, Tensor& x) { c.broadcast(x, c.size() - 1).wait(); });
    both({n}, mine, [](Comm& c, Tensor& x) { c.all_reduce(x).wait(); });
    both({n}, mine, [](Comm& c, Tensor& x) { c.all_reduce(x, Reduce::Max).wait(); });
    both({n}, mine, [&](Comm& c, Tensor& x) {
      Tensor got = backend().zeros({n});
      if (P == 1) return;
      Work sent = c.send(x, (r + 1) % P), came = c.recv(got, (r + P - 1) % P);
      sent.wait();
      came.wait();
      x = std::move(got);
    });
    // The whole has n elements a rank and 700 more for the first.
    Counts counts(P, n);
    counts[0] += 700;
    const int64_t all = P * n + 700;
    both({counts[r]}, numbers(r, counts[r]), [&](Comm& c, Tensor& x) {
      Tensor whole = backend().zeros({all});
      c.all_gather(x, whole, counts).wait();
      x = std::move(whole);
    });
    both({all}, numbers(r, all), [&](Comm& c, Tensor& x) {
      Tensor shard = backend().zeros({counts[r]});
      c.reduce_scatter(x, shard, counts).wait();
      x = std::move(shard);
    });
  }
}

// 2.1 GB a rank, so it is a ctest of its own, comm.big, and `slow`.
TEST_CASE("B47: 2^31+8 bytes broadcast", "[.big]") {
  std::vector<uint8_t> bytes((int64_t{1} << 31) + 8, world().rank() == 0 ? 3 : 0);
  bytes.back() = world().rank() == 0 ? 7 : 0;
  world().broadcast(std::span(bytes), 0).wait();
  CHECK(bytes.front() == 3);
  CHECK(bytes[bytes.size() - 2] == 3);
  CHECK(bytes.back() == 7);
}

}  // namespace course::test
