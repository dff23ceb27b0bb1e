// How the emulated NCCL's communicators begin, are split and end: the ranks meet by messages.
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/backend/cuda/emulate/nccl_communicator.hpp"
#include "common/backend/cuda/emulate/nccl_post.hpp"
#include "common/check.hpp"

using namespace course::emulate;
using course::cat;

namespace {

int next_context = 0;

bool blocks(const ncclConfig_t* config) { return !config || config->blocking != 0; }

struct Identity {
  int maker, serial;
};
struct Member {
  int rank, size, world, context;
  char gpu[16], host[64];
};

Member myself(int rank, int size) {
  Member me = {rank, size, my_world_rank(), next_context, {}, {}};
  cudaDeviceGetPCIBusId(me.gpu, sizeof me.gpu, Gpu::get().device);
  const char* host = std::getenv("NCCL_HOSTID");
  std::strncpy(me.host, host ? host : "this host", sizeof me.host - 1);
  return me;
}

// All members are known.
void meet(ncclComm& comm, std::vector<Member> members) {
  std::ranges::sort(members, {}, &Member::rank);
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].rank != static_cast<int>(i) || members[i].size != static_cast<int>(members.size()))
      return breaks(comm, ncclInvalidArgument, "the ranks of the communicator are not 0, 1, 2, ...");
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(members[i].gpu, members[j].gpu) == 0 && std::strcmp(members[i].host, members[j].host) == 0)
        return breaks(comm, ncclInvalidUsage,
                      cat("duplicate GPU: ranks ", j, " and ", i, " are both on CUDA device ", members[i].gpu));
  }
  for (const Member& member : members) {
    comm.world.push_back(member.world);
    comm.context = std::max(comm.context, member.context);
  }
  next_context = comm.context + 1;
}

// The one who made the identity collects the members and tells all of them.
std::function<bool()> meeting(ncclComm& comm, Identity id, Member me) {
  const int to_maker = 10 + 2 * id.serial, from_maker = to_maker + 1;
  const char* bytes = reinterpret_cast<const char*>(&me);
  if (me.world != id.maker) {
    send(id.maker, to_maker, {Said::Hello}, bytes, sizeof me);
    return [&comm, id, from_maker] {
      const auto message = take(id.maker, from_maker);
      if (!message) return false;
      std::vector<Member> members(message->bytes.size() / sizeof(Member));
      std::memcpy(members.data(), message->bytes.data(), message->bytes.size());
      meet(comm, members);
      return true;
    };
  }
  return [&comm, to_maker, from_maker, members = std::vector{me}]() mutable {
    while (static_cast<int>(members.size()) < members[0].size) {
      const auto message = take(-1, to_maker);
      if (!message) return false;
      members.emplace_back();
      std::memcpy(&members.back(), message->bytes.data(), sizeof(Member));
    }
    for (size_t i = 1; i < members.size(); ++i)
      send(members[i].world, from_maker, {Said::Hello}, reinterpret_cast<const char*>(members.data()),
                            members.size() * sizeof(Member));
    meet(comm, members);
    return true;
  };
}

// Every rank tells every other something, once. True when all have; then `told` holds it by rank.
struct Exchange {
  Card card;
  std::vector<char> mine;
  bool sent = false;
  std::map<int, std::vector<char>> told = {};

  bool done(ncclComm& comm) {
    for (int r = 0; !sent && r < comm.size(); ++r)
      if (r != comm.rank) send(comm.world[r], comm.setup_tag(), card, mine.data(), mine.size());
    sent = true;
    told[comm.rank] = mine;
    for (int r = 0; r < comm.size(); ++r) {
      if (told.contains(r)) continue;
      const auto message = take(comm.world[r], comm.setup_tag());
      if (!message) return false;
      if (message->card.what != card.what) {
        breaks(comm, message->card.what == Said::Gone ? ncclRemoteError : ncclInvalidUsage,
               cat("rank ", r, " calls ", show(message->card), ", rank ", comm.rank, " ", show(card)));
        return true;
      }
      told[r] = message->bytes;
    }
    return true;
  }
};

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  const Identity identity = {my_world_rank(), made++};
  *id = {};
  std::memcpy(id->internal, &identity, sizeof identity);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (rank < 0 || rank >= ranks) return failed(ncclInvalidArgument, cat("rank ", rank, " of ", ranks));
  Identity identity;
  std::memcpy(&identity, id.internal, sizeof identity);
  const Shared comm = new_comm(rank, blocks(config));
  *handle = comm.get();
  comm->under_way = meeting(*comm, identity, myself(rank, ranks));
  return begun(*comm);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (const ncclResult_t result = ready(handle, "ncclCommSplit"); result != ncclSuccess) return result;
  struct Place {
    int color, key, context;
  };
  const Place mine = {color, key, next_context};
  const char* bytes = reinterpret_cast<const char*>(&mine);
  *part = nullptr;
  handle->state = ncclInProgress;
  const bool blocking = config ? blocks(config) : handle->blocking;
  handle->under_way = [handle, color, part, blocking,
                       exchange = Exchange{{Said::Split}, {bytes, bytes + sizeof mine}}]() mutable {
    if (!exchange.done(*handle)) return false;
    if (handle->state != ncclInProgress) return true;
    std::vector<std::pair<int, int>> members;  // key, rank
    int context = 0;
    for (const auto& [r, told] : exchange.told) {
      Place place;
      std::memcpy(&place, told.data(), sizeof place);
      context = std::max(context, place.context);
      if (place.color == color) members.emplace_back(place.key, r);
    }
    next_context = context + 1;
    if (color == NCCL_SPLIT_NOCOLOR) return true;
    std::ranges::sort(members);
    const Shared comm = new_comm(0, blocking);
    comm->context = context;
    comm->state = ncclSuccess;
    for (const auto& [its_key, r] : members) {
      if (r == handle->rank) comm->rank = comm->size();
      comm->world.push_back(handle->world[r]);
    }
    *part = comm.get();
    return true;
  };
  return begun(*handle);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (const ncclResult_t result = ready(handle, "ncclCommFinalize"); result != ncclSuccess) return result;
  handle->final = true;
  handle->state = ncclInProgress;
  handle->under_way = [handle, exchange = Exchange{{Said::End}, {}}]() mutable {
    return handle->open == 0 && exchange.done(*handle);
  };
  return begun(*handle);
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (const ncclResult_t result = usable(handle, "ncclCommAbort"); result != ncclSuccess) return result;
  const bool in_order = handle->final && handle->state == ncclSuccess;
  for (int r = 0; r < handle->size() && !in_order; ++r)
    for (const int tag : {handle->calls_tag(), handle->answers_tag(), handle->setup_tag()})
      if (r != handle->rank) send(handle->world[r], tag, {Said::Gone});
  handle->over = true;
  handle->under_way = nullptr;
  handle->launch = nullptr;
  Gpu::get().advance();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) { return ncclCommAbort(handle); }  // the same, for one that is finalized
