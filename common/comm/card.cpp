#include "common/comm/card.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace course {
namespace {

constexpr int kBeside = 100;  // beyond the values of Op
constexpr size_t kCardWords = (sizeof(Card) + sizeof(int64_t) - 1) / sizeof(int64_t);

const int64_t* counts_of(const CardWords& words) { return words.data() + kCardWords; }

bool is_op(const Card& card, Op op) { return card.op == static_cast<int>(op); }
bool has_counts(const Card& card) { return is_op(card, Op::AllGather) || is_op(card, Op::ReduceScatter); }
bool moves_nothing(const Card& card) { return card.op >= kBeside || is_op(card, Op::Barrier); }
const char* type_of(const Card& card) { return name_of(static_cast<DType>(card.type)); }

// "all-gather of 4 f32"
std::string with_size(const Card& card) {
  return moves_nothing(card) ? operation_of(card) : cat(operation_of(card), " of ", card.elements, " ", type_of(card));
}

// What each rank says, those that say the same together: "12 on rank 0; 1 on ranks 1, 2". "" where all say the same.
std::string by_rank(const std::vector<CardWords>& cards, const std::vector<int>& world,
                    const std::function<std::string(const CardWords&)>& says) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t r = 0; r < cards.size(); ++r) {
    const std::string text = says(cards[r]);
    const auto same = [&](const auto& group) { return group.first == text; };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    (found == groups.end() ? groups.emplace_back(text, std::vector<int>()) : *found).second.push_back(world[r]);
  }
  std::string text;
  for (const auto& [said, ranks] : groups) text += cat(text.empty() ? "" : "; ", said, " on ", ranks_named(ranks));
  return groups.size() > 1 ? text : "";
}

// The first pair of an all-to-all of which one sends what the other does not expect.
std::string pair_apart(const std::vector<CardWords>& cards, const std::vector<int>& world) {
  const size_t P = cards.size();
  for (size_t r = 0; r < P; ++r)
    for (size_t s = 0; s < P; ++s) {
      const int64_t sent = counts_of(cards[r])[s], expected = counts_of(cards[s])[P + r];
      if (sent != expected)
        return cat("rank ", world[r], " sends ", sent, " elements to rank ", world[s], ", which expects ", expected);
    }
  return "";
}

}  // namespace

const Card& card_of(const CardWords& words) { return *reinterpret_cast<const Card*>(words.data()); }

const char* operation_of(const Card& card) {
  if (card.op == kBeside + static_cast<int>(Beside::Split)) return "split";
  if (card.op == kBeside + static_cast<int>(Beside::End)) return "the end of the program";
  return name_of(static_cast<Op>(card.op));
}

std::string ranks_named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += cat(i ? ", " : "", ranks[i]);
  return text;
}

CardWords card_for(const Meeting& meeting, int64_t number, const std::string& axis, Site at, int ranks) {
  CardWords words(kCardWords + 2 * ranks);
  Card card = {};
  card.number = number;
  card.peer = -1;
  card.line = at.line();
  std::strncpy(card.axis, axis.c_str(), sizeof card.axis - 1);
  std::strncpy(card.file, file_name(at.file_name()), sizeof card.file - 1);
  if (const Beside* beside = std::get_if<Beside>(&meeting)) {
    card.op = kBeside + static_cast<int>(*beside);
  } else {
    const Call& call = std::get<Call>(meeting);
    card.op = static_cast<int>(call.op);
    card.elements = call.whole().count;
    card.type = static_cast<int>(call.whole().type);
    card.reduce = static_cast<int>(call.reduce);
    card.peer = call.peer;
    std::copy(call.counts.begin(), call.counts.end(), words.begin() + kCardWords);
    std::copy(call.receive_counts.begin(), call.receive_counts.end(), words.begin() + kCardWords + ranks);
  }
  std::memcpy(words.data(), &card, sizeof card);
  return words;
}

std::string disagreement(const std::vector<CardWords>& cards, const std::vector<int>& world) {
  const Card& first = card_of(cards[0]);
  std::string about;
  const auto differ = [&](const char* what, const std::function<std::string(const CardWords&)>& says) {
    const std::string apart = by_rank(cards, world, says);
    if (!apart.empty()) about += cat(about.empty() ? "" : " and ", what, " (", apart, ")");
  };
  const auto all = [&](auto&& same) {
    return std::all_of(cards.begin(), cards.end(), [&](const CardWords& words) { return same(card_of(words)); });
  };
  const std::string call = cat("call ", first.number, " on ", first.axis);
  if (!all([&](const Card& c) { return c.op == first.op; })) {
    differ("the operation", [](const CardWords& words) { return with_size(card_of(words)); });
    return cat(call, ": ranks disagree about ", about);
  }
  const size_t P = cards.size();
  const bool alike = all([&](const Card& c) {
    return c.elements == first.elements && c.type == first.type && c.reduce == first.reduce && c.peer == first.peer &&
           std::strcmp(c.axis, first.axis) == 0;
  });
  const bool counts_alike = !has_counts(first) || std::all_of(cards.begin(), cards.end(), [&](const CardWords& words) {
    return std::equal(counts_of(words), counts_of(words) + P, counts_of(cards[0]));
  });
  const bool all_to_all = is_op(first, Op::AllToAll);
  if (!alike || !counts_alike) {
    differ("the type", [](const CardWords& words) { return type_of(card_of(words)); });
    if (!all_to_all) differ("the size", [](const CardWords& words) { return cat(card_of(words).elements); });
    if (!counts_alike && all([&](const Card& c) { return c.elements == first.elements; }))
      differ("the counts", [&](const CardWords& words) { return show(Shape(counts_of(words), counts_of(words) + P)); });
    differ("the reduction", [](const CardWords& words) {
      return card_of(words).reduce == static_cast<int>(Reduce::Max) ? "maximum" : "sum";
    });
    differ("the root", [&](const CardWords& words) {
      const int root = card_of(words).peer;
      return root < 0 ? "none" : cat("rank ", world[root]);
    });
    differ("the axis", [](const CardWords& words) { return card_of(words).axis; });
    if (!about.empty()) return cat(call, ", ", operation_of(first), ": ranks disagree about ", about);
  }
  if (!all_to_all) return "";
  const std::string apart = pair_apart(cards, world);
  return apart.empty() ? "" : cat(call, ", ", operation_of(first), ": ", apart);
}

std::string message_disagreement(const CardWords& sent, const CardWords& expected, int from, int to) {
  const Card &one = card_of(sent), &other = card_of(expected);
  if (one.elements == other.elements && one.type == other.type) return "";
  return cat("message ", other.number, " from rank ", from, " to rank ", to, " on ", other.axis, ": ", one.elements,
             " ", type_of(one), " sent, ", other.elements, " ", type_of(other), " expected");
}

std::string lines_apart(const std::vector<CardWords>& cards, const std::vector<int>& world) {
  const Card& first = card_of(cards[0]);
  if (is_op(first, Op::Broadcast) || moves_nothing(first)) return "";
  const bool alike = std::all_of(cards.begin(), cards.end(), [&](const CardWords& words) {
    return card_of(words).line == first.line && std::strcmp(card_of(words).file, first.file) == 0;
  });
  if (alike) return "";
  return by_rank(cards, world, [](const CardWords& words) { return cat(card_of(words).file, ":", card_of(words).line); });
}

}  // namespace course
