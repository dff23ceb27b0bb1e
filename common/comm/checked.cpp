#include "common/comm/checked.hpp"

#include <cstring>
#include <map>
#include <optional>

#include "common/comm/mpi_comm.hpp"
#include "common/comm/patience.hpp"

namespace course {
namespace {

constexpr int kSplit = 100;             // beside the values of Op
constexpr int kCall = 0, kMessage = 1;  // tags: cards of a group's call, of a message
constexpr double kGrace = 1;            // seconds for the last card of a rank that has ended

// What a rank says of a call. It travels as a row of words: this, then the counts.
struct Card {
  int64_t number, elements;
  int op, type, reduce, peer;
  uint32_t line;
  char axis[20], file[40];
};
using Words = std::vector<int64_t>;
constexpr size_t kCardWords = (sizeof(Card) + sizeof(int64_t) - 1) / sizeof(int64_t);

const Card& card_of(const Words& words) { return *reinterpret_cast<const Card*>(words.data()); }
// The counts, then the receive counts: P each.
const int64_t* counts_of(const Words& words) { return words.data() + kCardWords; }

bool is_op(const Card& card, Op op) { return card.op == static_cast<int>(op); }
bool has_counts(const Card& c) {
  return is_op(c, Op::AllGather) || is_op(c, Op::ReduceScatter) || is_op(c, Op::AllToAll);
}
bool from_one_line(const Card& card) { return has_counts(card) || is_op(card, Op::AllReduce); }
const char* name_of_op(const Card& card) { return card.op == kSplit ? "split" : name_of(static_cast<Op>(card.op)); }
std::string line_of(const Card& card) { return cat(" (", card.file, ":", card.line, ")"); }

std::string list(const int64_t* counts, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += cat(i ? "," : "[", counts[i]);
  return text + "]";
}

// "all-gather of 5 f32 as [3,2] (linear.cpp:22)"
std::string described(const Words& words, int ranks, bool with_axis = false) {
  const Card& card = card_of(words);
  std::string text = name_of_op(card);
  if (is_op(card, Op::AllReduce) && card.reduce == static_cast<int>(Reduce::Max)) text += " (max)";
  if (card.op != kSplit && !is_op(card, Op::Barrier))
    text += cat(" of ", card.elements, " ", name_of(static_cast<DType>(card.type)));
  if (is_op(card, Op::Broadcast)) text += cat(" with root ", card.peer);
  if (has_counts(card)) text += " as " + list(counts_of(words), ranks);
  if (is_op(card, Op::AllToAll)) text += " for " + list(counts_of(words) + ranks, ranks);
  if (with_axis) text += cat(" on ", card.axis);
  return text + line_of(card);
}

std::string ranks_named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += cat(i ? ", " : "", ranks[i]);
  return text;
}

// What the ranks of a call disagree about; "" where they agree. `world` names them.
std::string disagreement(const std::vector<Words>& cards, const std::vector<int>& world) {
  const int P = static_cast<int>(cards.size());
  const Card& first = card_of(cards[0]);
  std::string about;
  const auto differ = [&](const char* what, auto&& same) {
    for (int r = 1; r < P; ++r)
      if (!same(card_of(cards[r]), cards[r])) {
        about += cat(about.empty() ? "" : " and ", what);
        return true;
      }
    return false;
  };
  const bool all_to_all = is_op(first, Op::AllToAll);
  bool with_axis = false;
  if (!differ("the operation", [&](const Card& c, const Words&) { return c.op == first.op; })) {
    differ("the type", [&](const Card& c, const Words&) { return c.type == first.type; });
    differ("the size", [&](const Card& c, const Words&) { return all_to_all || c.elements == first.elements; });
    if (is_op(first, Op::AllGather) || is_op(first, Op::ReduceScatter))
      differ("who has how much", [&](const Card&, const Words& w) {
        return std::equal(counts_of(w), counts_of(w) + P, counts_of(cards[0]));
      });
    differ("the reduction", [&](const Card& c, const Words&) { return c.reduce == first.reduce; });
    differ("the root", [&](const Card& c, const Words&) { return c.peer == first.peer; });
    with_axis = differ("the axis", [&](const Card& c, const Words&) { return std::strcmp(c.axis, first.axis) == 0; });
    if (about.empty() && from_one_line(first))
      differ("the line that calls",
             [&](const Card& c, const Words&) { return c.line == first.line && std::strcmp(c.file, first.file) == 0; });
  }
  const std::string call = cat("call ", first.number, " on ", first.axis, ": ");
  if (about.empty() && all_to_all)
    for (int r = 0; r < P; ++r)
      for (int s = 0; s < P; ++s) {
        const int64_t sent = counts_of(cards[r])[s], expected = counts_of(cards[s])[P + r];
        if (sent != expected)
          return cat(call, "ranks disagree about an all-to-all: rank ", world[r], " sends ", sent, " elements to rank ",
                     world[s], line_of(card_of(cards[r])), ", which expects ", expected, line_of(card_of(cards[s])));
      }
  if (about.empty()) return "";
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int r = 0; r < P; ++r) {
    const std::string text = described(cards[r], P, with_axis);
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == text; });
    (same == groups.end() ? groups.emplace_back(text, std::vector<int>()) : *same).second.push_back(world[r]);
  }
  std::string text = cat(call, "ranks disagree about ", about, ": ");
  for (size_t i = 0; i < groups.size(); ++i)
    text += cat(i ? ", " : "", ranks_named(groups[i].second), " ", groups[i].first);
  return text;
}

class Checked;

// A call that is not complete.
struct Entry {
  Checked* group;            // null once the group is gone
  std::optional<Call> call;  // none: a split
  Site at;
  int from = -1;  // of a message; a group's call has -1. Calls of one group and `from` start in order
  Words mine;
  std::vector<Words> cards;  // by rank of the group; of a message only the sender's
  std::vector<int> awaited;  // whose card each receive is
  std::vector<MPI_Request> receives, sends;
  bool agreed = false, started = false;
  std::string failed;
  Work inner;
  Patience patience;
  int64_t noted = 0;  // on the board
};

// What all groups of one world share.
struct Together {
  std::shared_ptr<const double> timeout;
  std::shared_ptr<Board> board;
  std::vector<std::shared_ptr<Entry>> open;  // not started, or with cards on their way; in the order of the calls

  void advance();
  bool poll(Entry& entry);
  [[noreturn]] void give_up(Entry& entry, const std::string& why);
};

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return done != 0;
}

class Checked : public Comm {
 public:
  Checked(std::unique_ptr<Comm> inner, MPI_Comm own, std::shared_ptr<Together> together)
      : inner_(std::move(inner)), own_(own), together_(std::move(together)) {
    MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN);
    MPI_Group group, world;
    MPI_Comm_group(own_, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    std::vector<int> ranks(size());
    for (int r = 0; r < size(); ++r) ranks[r] = r;
    world_ranks_.resize(size());
    MPI_Group_translate_ranks(group, size(), ranks.data(), world, world_ranks_.data());
    MPI_Group_free(&group);
    MPI_Group_free(&world);
  }
  ~Checked() override {
    for (auto& entry : together_->open)
      if (entry->group == this) entry->group = nullptr;
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&own_);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  const std::vector<int>& world_ranks() const { return world_ranks_; }

  std::unique_ptr<Comm> split(int color, int key, const std::string& name) override {
    if (size() > 1) make(std::nullopt, Site::current()).wait();
    MPI_Comm part;
    auto inner = inner_->split(color, key, name);
    check(MPI_Comm_split(own_, color, key, &part), "MPI_Comm_split");
    return std::make_unique<Checked>(std::move(inner), part, together_);
  }

  Work start(const Call& call) override { return size() == 1 ? inner_->start(call) : make(call, call.at); }
  Work start_inner(const Call& call) { return inner_->start(call); }

  // "call 8 all-reduce of 12 f32 on tp (mlp.cpp:40)"
  std::string words_for(const Entry& entry) const {
    const Card& card = card_of(entry.mine);
    std::string text = described(entry.mine, size(), true);
    if (is_op(card, Op::Send) || is_op(card, Op::Recv))
      text += cat(is_op(card, Op::Send) ? " to rank " : " from rank ", world_ranks_[card.peer]);
    return cat("call ", card.number, " ", text);
  }

  // Compares the cards of an entry that has them all.
  std::string verdict(const Entry& entry) const {
    if (entry.from < 0) return disagreement(entry.cards, world_ranks_);
    const Card &mine = card_of(entry.mine), &sent = card_of(entry.cards[entry.from]);
    if (mine.elements == sent.elements && mine.type == sent.type) return "";
    return cat("message ", mine.number, " from rank ", world_ranks_[entry.from], " to rank ", world_ranks_[rank()],
               " on ", name(), ": one disagrees with the other: ", described(entry.cards[entry.from], size()), ", ",
               described(entry.mine, size()));
  }

 private:
  Work make(const std::optional<Call>& call, Site at) {
    auto entry = std::make_shared<Entry>();
    entry->group = this;
    entry->call = call;
    entry->at = at;
    const int P = size();
    const bool sends = call && call->op == Op::Send, receives = call && call->op == Op::Recv;
    entry->mine = words(call, at);
    const int length = static_cast<int>(entry->mine.size());
    const auto expect = [&](int r, int tag) {
      entry->cards[r].resize(length);
      entry->awaited.push_back(r);
      check(MPI_Irecv(entry->cards[r].data(), length, MPI_INT64_T, r, tag, own_, &entry->receives.emplace_back()),
            "MPI_Irecv");
    };
    const auto tell = [&](int r, int tag) {
      check(MPI_Isend(entry->mine.data(), length, MPI_INT64_T, r, tag, own_, &entry->sends.emplace_back()),
            "MPI_Isend");
    };
    entry->cards.resize(P);
    if (sends) {
      tell(call->peer, kMessage);
    } else if (receives) {
      entry->from = call->peer;
      expect(call->peer, kMessage);
    } else {
      entry->cards[rank()] = entry->mine;
      for (int step = 1; step < P; ++step) expect((rank() + P - step) % P, kCall);
      for (int step = 1; step < P; ++step) tell((rank() + step) % P, kCall);
    }
    if (together_->board) {
      const Card& card = card_of(entry->mine);
      const int64_t bytes = call ? call->whole().count * size_of(call->whole().type) : 0;
      entry->noted = together_->board->begin({card.number, name_of_op(card), bytes, name(), at});
    }
    if (sends) {  // waits for nobody
      entry->agreed = entry->started = true;
      entry->inner = inner_->start(*call);
    }
    together_->open.push_back(entry);
    together_->advance();
    return Work([entry, together = together_] { return together->poll(*entry); });
  }

  Words words(const std::optional<Call>& call, Site at) {
    Card card = {};
    card.op = call ? static_cast<int>(call->op) : kSplit;
    card.peer = -1;
    card.line = at.line();
    std::strncpy(card.axis, name().c_str(), sizeof card.axis - 1);
    std::strncpy(card.file, file_of(at), sizeof card.file - 1);
    Words words(kCardWords + 2 * size());
    if (call) {
      card.elements = call->whole().count;
      card.type = static_cast<int>(call->whole().type);
      card.reduce = static_cast<int>(call->reduce);
      card.peer = call->peer;
      std::copy(call->counts.begin(), call->counts.end(), words.begin() + kCardWords);
      std::copy(call->receive_counts.begin(), call->receive_counts.end(), words.begin() + kCardWords + size());
    }
    const bool message = call && (call->op == Op::Send || call->op == Op::Recv);
    card.number = message ? ++messages_[{call->op, call->peer}] : ++calls_;
    std::memcpy(words.data(), &card, sizeof card);
    return words;
  }

  std::unique_ptr<Comm> inner_;
  MPI_Comm own_;
  std::shared_ptr<Together> together_;
  std::vector<int> world_ranks_;
  int64_t calls_ = 0;
  std::map<std::pair<Op, int>, int64_t> messages_;
};

// One that nobody waits for any more, because an exception took its Work, is not started: its memory may be gone.
bool given_up(const std::shared_ptr<Entry>& entry) { return !entry->group || entry.use_count() == 1; }

void Together::advance() {
  for (size_t i = 0; i < open.size();) {
    const std::shared_ptr<Entry>& entry = open[i];
    const bool orphan = !entry->started && given_up(entry);
    if (!entry->agreed && all_done(entry->receives)) {
      entry->agreed = true;
      if (entry->group) entry->failed = entry->group->verdict(*entry);
    }
    if (!entry->failed.empty()) {
      const auto failed = entry;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      throw Error(failed->failed, failed->at);
    }
    if (entry->agreed && !entry->started && !orphan) {
      bool first = true;
      for (size_t j = 0; j < i; ++j)
        first = first && (open[j]->started || open[j]->group != entry->group || open[j]->from != entry->from);
      if (first) {
        entry->started = true;
        if (entry->call) entry->inner = entry->group->start_inner(*entry->call);
      }
    }
    if (entry->started && all_done(entry->sends))
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

bool Together::poll(Entry& entry) {
  advance();
  if (!entry.failed.empty()) throw Error(entry.failed, entry.at);
  try {
    if (entry.started && entry.inner.test()) {
      if (board) board->end(entry.noted);
      return true;
    }
  } catch (const Error& error) {
    give_up(entry, cat(entry.group ? entry.group->words_for(entry) : "", ": ", error.what()));
  }
  if (board) board->seen();
  const double waited = entry.patience.waited();
  const bool over = *timeout > 0 && waited >= *timeout;
  if (!over && (entry.agreed || waited < kGrace || !board)) return false;

  // Who is missing: here, or at an earlier call of the group that must start first.
  const Entry* held = &entry;
  for (const auto& other : open)
    if (!entry.started && !other->started && other->group == entry.group && other->from == entry.from) {
      held = other.get();
      break;
    }
  std::vector<int> missing, ended;
  for (size_t i = 0; !held->agreed && i < held->receives.size(); ++i) {
    int came = 0;
    if (held->receives[i] != MPI_REQUEST_NULL)
      MPI_Request_get_status(held->receives[i], &came, MPI_STATUS_IGNORE);
    else
      came = 1;
    if (came) continue;
    missing.push_back(held->group->world_ranks()[held->awaited[i]]);
    if (board && board->has_ended(missing.back())) ended.push_back(missing.back());
  }
  const std::string call = held->group->words_for(*held);
  if (!ended.empty())
    give_up(entry,
            cat(call, ": ", ranks_named(ended), ended.size() == 1 ? " has" : " have", " ended and will not come"));
  if (!over) return false;
  give_up(entry, cat("waited ", *timeout, " s for ", call, ": ",
                     missing.empty() ? "all ranks came to it, but it does not end"
                                     : cat(ranks_named(missing), " did not come"),
                     "; --timeout sets the limit"));
}

void Together::give_up(Entry& entry, const std::string& why) {
  if (board) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    board->say(cat("rank ", rank, ": ", why).c_str());
  }
  throw Error(why, entry.at);
}

}  // namespace

std::unique_ptr<Comm> make_checked(std::unique_ptr<Comm> inner, MPI_Comm group, std::shared_ptr<const double> timeout,
                                   std::shared_ptr<Board> board) {
  MPI_Comm own;
  check(MPI_Comm_dup(group, &own), "MPI_Comm_dup");
  auto together = std::make_shared<Together>();
  together->timeout = std::move(timeout);
  together->board = std::move(board);
  return std::make_unique<Checked>(std::move(inner), own, std::move(together));
}

}  // namespace course
