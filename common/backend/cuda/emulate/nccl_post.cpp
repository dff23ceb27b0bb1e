#include "common/backend/cuda/emulate/nccl_post.hpp"

#include <mpi.h>
#include <nccl.h>

#include <cstring>
#include <list>

#include "common/check.hpp"

namespace course::emulate {
namespace {

struct Leaving {
  std::vector<char> bytes;
  MPI_Request request;
};
std::list<Leaving>& leaving() {
  static std::list<Leaving> all;
  return all;
}

const char* name_of(Said what) {
  switch (what) {
    case Said::Broadcast: return "ncclBroadcast";
    case Said::Reduce: return "ncclReduce";
    case Said::AllReduce: return "ncclAllReduce";
    case Said::AllGather: return "ncclAllGather";
    case Said::ReduceScatter: return "ncclReduceScatter";
    case Said::Send: return "ncclSend";
    case Said::Recv: return "ncclRecv";
    case Said::Split: return "ncclCommSplit";
    case Said::End: return "ncclCommFinalize";
    case Said::Hello:
    case Said::Gone: break;
  }
  return "nothing more";
}

const char* name_of_type(int type) {
  switch (type) {
    case ncclUint8: return "uint8";
    case ncclInt32: return "int32";
    case ncclInt64: return "int64";
    case ncclFloat32: return "float32";
    case ncclFloat64: return "float64";
    case ncclBfloat16: return "bfloat16";
    default: return "elements";
  }
}

}  // namespace

std::string show(const Card& card) {
  std::string text = name_of(card.what);
  if (card.what > Said::Recv) return text;
  text += cat(" of ", card.count, " ", name_of_type(card.type));
  if (card.reduce >= 0) text += card.reduce == ncclSum ? ", sum" : ", maximum";
  if (card.root >= 0) text += cat(", root ", card.root);
  return text;
}

void send(int to, int tag, const Card& card, const char* bytes, size_t size) {
  leaving().remove_if([](Leaving& one) {
    int done = 0;
    MPI_Test(&one.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  Leaving& one = leaving().emplace_back();
  one.bytes.resize(sizeof card + size);
  std::memcpy(one.bytes.data(), &card, sizeof card);
  if (size > 0) std::memcpy(one.bytes.data() + sizeof card, bytes, size);
  MPI_Isend(one.bytes.data(), static_cast<int>(one.bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD, &one.request);
}

std::optional<Message> take(int from, int tag) {
  int there = 0, size = 0;
  MPI_Message arrived;
  MPI_Status status;
  MPI_Improbe(from < 0 ? MPI_ANY_SOURCE : from, tag, MPI_COMM_WORLD, &there, &arrived, &status);
  if (!there) return std::nullopt;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::vector<char> all(size);
  MPI_Mrecv(all.data(), size, MPI_BYTE, &arrived, MPI_STATUS_IGNORE);
  Message message;
  std::memcpy(&message.card, all.data(), sizeof message.card);
  message.bytes.assign(all.begin() + sizeof message.card, all.end());
  return message;
}

int my_world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

}  // namespace course::emulate
