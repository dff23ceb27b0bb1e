#include "common/comm/checked.hpp"

#include <mpi.h>

#include "common/comm/mpi_comm.hpp"
#include "common/comm/staged.hpp"
#include "tests/common/comm/conforms.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/thrown.hpp"

namespace course::test {
namespace {

Elements nowhere(int64_t count, DType type = DType::F32) { return {nullptr, count, type, Device::Cpu}; }
Call call_of(Op op, int64_t count, DType type = DType::F32) {
  return {op, nowhere(count, type), nowhere(count, type), Site::current()};
}

// Three ranks, 4, 7 and 9 of the world: what they disagree about if rank 7 makes another call.
std::string apart(const Call& call, const Call& other, const std::string& other_axis = "tp") {
  std::vector<CardWords> cards;
  for (int r = 0; r < 3; ++r)
    cards.push_back(card_for(r == 1 ? other : call, 3, r == 1 ? other_axis : "tp", call.at, 3));
  return disagreement(cards, {4, 7, 9});
}

std::unique_ptr<Comm> checked_world() {
  const auto timeout = std::make_shared<double>(40);
  auto checked = make_checked(make_mpi_comm(MPI_COMM_WORLD, "checked world", timeout), MPI_COMM_WORLD, timeout, nullptr);
  return std::make_unique<Staged>(std::move(checked), backend());
}

}  // namespace

TEST_CASE("cards that agree say nothing") {
  for (const Op op : {Op::AllReduce, Op::Broadcast, Op::Barrier}) CHECK(apart(call_of(op, 5), call_of(op, 5)) == "");
  Call gather = call_of(Op::AllGather, 5);
  gather.counts = {3, 2, 0};
  CHECK(apart(gather, gather) == "");
}

TEST_CASE("cards that differ name what, with every rank's value") {
  const Call sum = call_of(Op::AllReduce, 12);
  CHECK(apart(sum, call_of(Op::AllGather, 4)) ==
        "call 3 on tp: ranks disagree about the operation (all-reduce of 12 f32 on ranks 4, 9; all-gather of 4 f32 on "
        "rank 7)");
  CHECK(apart(sum, call_of(Op::AllReduce, 1)) ==
        "call 3 on tp, all-reduce: ranks disagree about the size (12 on ranks 4, 9; 1 on rank 7)");
  CHECK(apart(sum, call_of(Op::AllReduce, 12, DType::I32)) ==
        "call 3 on tp, all-reduce: ranks disagree about the type (f32 on ranks 4, 9; i32 on rank 7)");
  Call maximum = sum;
  maximum.reduce = Reduce::Max;
  CHECK(apart(sum, maximum) ==
        "call 3 on tp, all-reduce: ranks disagree about the reduction (sum on ranks 4, 9; maximum on rank 7)");
  CHECK(apart(sum, sum, "dp") ==
        "call 3 on tp, all-reduce: ranks disagree about the axis (tp on ranks 4, 9; dp on rank 7)");
  Call broadcast = call_of(Op::Broadcast, 12), other_root = broadcast;
  broadcast.peer = 0;
  other_root.peer = 2;
  CHECK(apart(broadcast, other_root) ==
        "call 3 on tp, broadcast: ranks disagree about the root (rank 4 on ranks 4, 9; rank 9 on rank 7)");
  Call gather = call_of(Op::AllGather, 5), other_counts = gather;
  gather.counts = {3, 2, 0};
  other_counts.counts = {2, 3, 0};
  CHECK(apart(gather, other_counts) ==
        "call 3 on tp, all-gather: ranks disagree about the counts ([3,2,0] on ranks 4, 9; [2,3,0] on rank 7)");
}

TEST_CASE("an all-to-all agrees pair by pair") {
  // Row r: what rank r sends to each.
  const std::vector<Counts> sent = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  std::vector<CardWords> cards;
  for (int r = 0; r < 3; ++r) {
    Call call = call_of(Op::AllToAll, 3 * (r + 1));  // sizes differ rightly
    call.counts = sent[r];
    call.receive_counts = {sent[0][r], sent[1][r], sent[2][r]};
    cards.push_back(card_for(call, 3, "tp", call.at, 3));
  }
  CHECK(disagreement(cards, {4, 7, 9}) == "");
  Call call = call_of(Op::AllToAll, 24);
  call.counts = sent[2];
  call.receive_counts = {3, 5, 9};
  cards[2] = card_for(call, 3, "tp", call.at, 3);
  CHECK(disagreement(cards, {4, 7, 9}) == "call 3 on tp, all-to-all: rank 7 sends 6 elements to rank 9, which expects 5");
}

TEST_CASE("a source line alone is no disagreement, but it is seen") {
  const Call here = call_of(Op::AllReduce, 12);
  const Site there = Site::current();
  std::vector<CardWords> cards = {card_for(here, 1, "tp", here.at, 2),
                              card_for(here, 1, "tp", there, 2)};
  CHECK(disagreement(cards, {0, 1}) == "");
  CHECK(lines_apart(cards, {0, 1}) ==
        cat("checked.cpp:", here.at.line(), " on rank 0; checked.cpp:", there.line(), " on rank 1"));
  cards[1] = cards[0];
  CHECK(lines_apart(cards, {0, 1}) == "");
}

TEST_CASE("a checked comm conforms") { conforms(*checked_world()); }

TEST_CASE("B41: every rank is told of a disagreement, in the same words") {
  const int P = world().size(), r = world().rank();
  const std::string ranks = P == 2 ? "rank 1" : P == 3 ? "ranks 1, 2" : "ranks 1, 2, 3";
  {
    const auto comm = checked_world();
    Tensor x = backend().zeros(r == 0 ? Shape{3, 4} : Shape{1});
    const std::string said = words_thrown([&] { comm->all_reduce(x).wait(); });
    CHECK(said == (P == 1 ? ""
                          : cat("call 1 on checked world, all-reduce: ranks disagree about the size (12 on rank 0; 1 on ",
                                ranks, ")")));
  }
  {
    const auto comm = checked_world();
    std::vector<float> twelve(12);
    std::vector<double> six(6);
    const std::string said = words_thrown([&] {
      if (r == 0)
        comm->all_reduce(std::span(twelve)).wait();
      else
        comm->all_reduce(std::span(six)).wait();
    });
    CHECK(said == (P == 1 ? ""
                          : cat("call 1 on checked world, all-reduce: ranks disagree about the type (f32 on rank 0; f64 on ",
                                ranks, ") and the size (12 on rank 0; 6 on ", ranks, ")")));
  }
  CHECK(world().sum(1) == P);  // another group is none the worse
}

TEST_CASE("checked calls of two groups may be waited for in any order") { takes_two_groups_in_any_order(*checked_world(), 50); }

}  // namespace course::test
