// What the emulated NCCL's ranks say to each other, over MPI's world. Nothing here waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace course::emulate {

enum class Said : int { Broadcast, Reduce, AllReduce, AllGather, ReduceScatter, Send, Recv, Hello, Split, End, Gone };

// What a rank says of a call, ahead of the bytes.
struct Card {
  Said what;
  int type = 0, reduce = -1, root = -1;  // -1: has none
  int64_t count = 0;
  int64_t number = 0;  // of the communicator's calls
  bool operator==(const Card&) const = default;
};
std::string show(const Card& card);  // "ncclAllReduce of 12 float32, sum"

struct Message {
  Card card;
  std::vector<char> bytes;
};

// The messages between two ranks under one tag arrive in the order in which they were sent.
void send(int to, int tag, const Card& card, const char* bytes = nullptr, size_t size = 0);
std::optional<Message> take(int from, int tag);  // from -1: anybody. Nothing where none has come

int my_world_rank();

}  // namespace course::emulate
