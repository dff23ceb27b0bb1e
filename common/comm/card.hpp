// What a rank says of a call before it starts, and what the ranks of a group disagree about: no MPI in here.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/comm/comm.hpp"

namespace course {

// What passes between ranks beside the operations of Comm.
enum class Beside { Split, End };  // a group is cut into parts; a rank has come to the end of its program

using Meeting = std::variant<Call, Beside>;  // what the ranks of a group must all come to

// A card travels as words of 64 bits, as many on every rank of a group: the fixed part, then the counts and the receive
// counts, one a rank.
using CardWords = std::vector<int64_t>;

struct Card {
  int64_t number;    // of the call on its group, or of the message between its two ranks; from 1
  int64_t elements;  // of the larger side
  int op, type, reduce, peer;
  uint32_t line;
  char axis[20], file[40];  // cut at the end
};

CardWords card_for(const Meeting& meeting, int64_t number, const std::string& axis, Site at, int ranks);
const Card& card_of(const CardWords& words);

// "all-reduce", "split", "the end of the program".
const char* operation_of(const Card& card);

// "rank 1", "ranks 0, 2".
std::string ranks_named(const std::vector<int>& ranks);

// What the ranks of one call disagree about, cards in the group's order, the ranks' numbers in the world; "" where they
// agree:
//
//   call 3 on tp, all-reduce: ranks disagree about the size (12 on rank 0; 1 on ranks 1, 2)
//   call 3 on tp: ranks disagree about the operation (all-reduce of 12 f32 on rank 0; all-gather of 4 f32 on rank 1)
//   call 3 on tp, all-to-all: rank 0 sends 3 elements to rank 1, which expects 2
//
// They must agree on operation, type, size, reduction, root and axis; in an all-gather and a reduce-scatter on every
// rank's count; in an all-to-all on what each pair exchanges.
std::string disagreement(const std::vector<CardWords>& cards, const std::vector<int>& world);

// The same for a message, of which the receiver has both cards.
std::string message_disagreement(const CardWords& sent, const CardWords& expected, int from, int to);

// Where calls that agree come from, if not from one line: "mlp.cpp:40 on rank 0; mlp.cpp:44 on rank 1". "" for a
// broadcast, whose root and receivers may well stand apart, and for what moves nothing. Two sums of one size in another
// order differ in nothing else; but so does a sum that a program rightly calls on two branches.
std::string lines_apart(const std::vector<CardWords>& cards, const std::vector<int>& world);

}  // namespace course
