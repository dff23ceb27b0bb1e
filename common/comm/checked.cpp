#include "common/comm/checked.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <set>

#include "common/comm/mpi_comm.hpp"
#include "common/comm/patience.hpp"

namespace course {
namespace {

constexpr int kCall = 0, kMessage = 1;  // tags: cards of a group's call, of a message
constexpr double kGrace = 1;            // seconds for the last card of a rank that has ended

bool all_done(std::vector<MPI_Request>& requests) {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return done != 0;
}

bool came(MPI_Request receive) {
  int done = 1;
  if (receive != MPI_REQUEST_NULL) MPI_Request_get_status(receive, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

}  // namespace

struct Checked::Entry {
  Checked* group;            // null once the group is gone
  Meeting meeting;
  Site at;
  int from = -1;  // of a message; a group's call has -1. Calls of one group and `from` start in order
  CardWords mine;
  std::vector<CardWords> cards;  // by rank of the group; of a message only the sender's
  std::vector<int> awaited;  // whose card each receive is
  std::vector<MPI_Request> receives, sends;
  bool agreed = false, started = false;
  std::string failed;
  Work inner;
  Patience patience, grace;
  int64_t noted = 0;  // on the board

  const Call* call() const { return std::get_if<Call>(&meeting); }  // null: what is beside the calls
  bool on_device() const { return call() && !call()->on_host(); }
  // Whether the two must start in the order in which they were called.
  bool same_order(const Entry& other) const {
    return (group == other.group && from == other.from) ||
           (group && other.group && on_device() && other.on_device());
  }
};

struct Checked::Together {
  std::shared_ptr<const double> timeout;
  std::shared_ptr<Board> board;
  std::vector<std::shared_ptr<Entry>> open;  // not started, or with cards on their way; in the order of the calls
  std::set<std::string> notes;               // said already

  void advance();
  bool poll(Entry& entry, Until until);
  void look_for_missing(Entry& entry);
  void note_lines(const Entry& entry);
  [[noreturn]] void give_up(const std::string& why, Site at);
};

Checked::Checked(std::unique_ptr<Comm> inner, MPI_Comm own, std::shared_ptr<Together> together)
    : CommDecorator(std::move(inner)), own_(own), together_(std::move(together)), world_ranks_(size()) {
  MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN);
  MPI_Group group, world;
  MPI_Comm_group(own_, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> ranks(size());
  std::iota(ranks.begin(), ranks.end(), 0);
  MPI_Group_translate_ranks(group, size(), ranks.data(), world, world_ranks_.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}

Checked::~Checked() {
  for (auto& entry : together_->open)
    if (entry->group == this) entry->group = nullptr;
  if (std::uncaught_exceptions() == 0) MPI_Comm_free(&own_);
}

std::unique_ptr<Comm> Checked::split(int color, int key, const std::string& name, Site at) {
  if (size() > 1) exchange(Beside::Split, at).wait();
  MPI_Comm part;
  auto inner_part = inner().split(color, key, name, at);
  check(MPI_Comm_split(own_, color, key, &part), "MPI_Comm_split");
  return std::unique_ptr<Checked>(new Checked(std::move(inner_part), part, together_));
}

Work Checked::start(const Call& call) { return size() == 1 ? inner().start(call) : exchange(call, call.at); }

void Checked::end(Site at) {
  if (together_->board) together_->board->comes_to_end();
  if (size() > 1) exchange(Beside::End, at).wait();
}

// "call 8 on tp, all-reduce"
std::string Checked::title_of(const Entry& entry) const {
  const Card& card = card_of(entry.mine);
  const int peer = card.peer < 0 ? -1 : world_ranks_[card.peer];
  if (entry.call() && entry.call()->op == Op::Send) return cat("message ", card.number, " to rank ", peer, " on ", name());
  if (entry.call() && entry.call()->op == Op::Recv)
    return cat("message ", card.number, " from rank ", peer, " on ", name());
  return cat("call ", card.number, " on ", name(), ", ", operation_of(card));
}

// Of an entry that has all its cards.
std::string Checked::verdict(const Entry& entry) const {
  if (entry.from < 0) return disagreement(entry.cards, world_ranks_);
  return message_disagreement(entry.cards[entry.from], entry.mine, world_ranks_[entry.from], world_ranks_[rank()]);
}

Work Checked::exchange(const Meeting& meeting, Site at) {
  const int P = size();
  const Call* call = std::get_if<Call>(&meeting);
  const bool sends = call && call->op == Op::Send, receives = call && call->op == Op::Recv;
  const int64_t number = sends || receives ? ++messages_[{call->op, call->peer}] : ++calls_;
  auto entry = std::make_shared<Entry>();
  entry->group = this;
  entry->meeting = meeting;
  entry->at = at;
  entry->mine = card_for(meeting, number, name(), at, P);
  entry->cards.resize(P);
  const bool noted = call || std::get<Beside>(meeting) != Beside::End;
  if (together_->board && noted) {  // before the cards go: who compares them finds the call on the board
    const int64_t bytes = call ? call->whole().count * size_of(call->whole().type) : 0;
    const int peer = call && call->peer >= 0 ? world_ranks_[call->peer] : -1;
    entry->noted = together_->board->begin({number, operation_of(card_of(entry->mine)), bytes, peer, name(), at});
  }
  const int length = static_cast<int>(entry->mine.size());
  const auto expect = [&](int r, int tag) {
    entry->cards[r].resize(length);
    entry->awaited.push_back(r);
    check(MPI_Irecv(entry->cards[r].data(), length, MPI_INT64_T, r, tag, own_, &entry->receives.emplace_back()),
          "MPI_Irecv");
  };
  const auto tell = [&](int r, int tag) {
    check(MPI_Isend(entry->mine.data(), length, MPI_INT64_T, r, tag, own_, &entry->sends.emplace_back()), "MPI_Isend");
  };
  if (sends) {  // waits for nobody
    tell(call->peer, kMessage);
    entry->agreed = true;
    entry->started = !entry->on_device();
    if (entry->started) entry->inner = inner().start(*call);
  } else if (receives) {
    entry->from = call->peer;
    expect(call->peer, kMessage);
  } else {
    entry->cards[rank()] = entry->mine;
    for (int step = 1; step < P; ++step) expect((rank() + P - step) % P, kCall);
    for (int step = 1; step < P; ++step) tell((rank() + step) % P, kCall);
  }
  together_->open.push_back(entry);
  together_->advance();
  return Work([entry, together = together_](Until until) { return together->poll(*entry, until); });
}

void Checked::Together::advance() {
  for (size_t i = 0; i < open.size();) {
    const std::shared_ptr<Entry> entry = open[i];
    if (!entry->agreed && all_done(entry->receives)) {
      entry->agreed = true;
      if (entry->group) entry->failed = entry->group->verdict(*entry);
      if (entry->group && entry->failed.empty() && entry->from < 0) note_lines(*entry);
    }
    if (!entry->failed.empty()) {
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      give_up(entry->failed, entry->at);
    }
    // One that nobody waits for any more, because an exception took its Work, is not started: its memory may be gone.
    const bool wanted = entry->group && entry.use_count() > 2;  // open's and ours
    const auto before = open.begin() + static_cast<std::ptrdiff_t>(i);
    if (entry->agreed && !entry->started && wanted &&
        std::all_of(open.begin(), before, [&](const auto& e) { return e->started || !e->same_order(*entry); })) {
      entry->started = true;
      if (entry->call()) entry->inner = entry->group->inner().start(*entry->call());
    }
    if (entry->started && all_done(entry->sends))
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
}

bool Checked::Together::poll(Entry& entry, Until until) {
  advance();
  if (!entry.failed.empty()) throw Error(entry.failed, entry.at);
  std::string stuck;
  try {
    if (entry.group) entry.group->inner().look();
    if (entry.started && entry.inner.reached(until)) {
      if (board) board->end(entry.noted);
      return true;
    }
  } catch (const Error& error) {  // the transport's own limit
    stuck = error.what();
  }
  if (!stuck.empty()) give_up(cat(entry.group ? cat(entry.group->title_of(entry), ": ") : "", stuck), entry.at);
  if (board) board->seen();
  look_for_missing(entry);
  return false;
}

void Checked::Together::look_for_missing(Entry& entry) {
  const double waited = entry.patience.waited();
  const bool over = *timeout > 0 && waited >= *timeout, sends = entry.call() && entry.call()->op == Op::Send;
  if (!over && ((entry.started && !sends) || waited < kGrace || !board)) return;

  // Who is missing: here, or at an earlier call of the group that must start first.
  const auto first = std::find_if(open.begin(), open.end(),
                                  [&](const auto& e) { return !entry.started && !e->started && e->same_order(entry); });
  const Entry& held = first == open.end() ? entry : **first;
  if (!held.group) return;
  std::vector<int> missing, ended;
  const auto misses = [&](int r) {
    missing.push_back(held.group->world_ranks_[r]);
    if (board && board->has_ended(missing.back())) ended.push_back(missing.back());
  };
  for (size_t i = 0; !held.agreed && i < held.receives.size(); ++i)
    if (!came(held.receives[i])) misses(held.awaited[i]);
  if (sends) misses(entry.call()->peer);
  const std::string call = held.group->title_of(held);
  if (!ended.empty() && entry.grace.waited() >= kGrace)
    give_up(cat(call, ": ", ranks_named(ended), ended.size() == 1 ? " has" : " have", " ended and will not come"),
            entry.at);
  if (!over) return;
  const std::string who =
      missing.empty() ? "all ranks came, but it does not end" : ranks_named(missing) + " did not come";
  give_up(cat(call, ": waited ", *timeout, " s, ", who, "; --timeout sets the limit"), entry.at);
}

void Checked::Together::note_lines(const Entry& entry) {
  const std::string lines = lines_apart(entry.cards, entry.group->world_ranks_);
  if (lines.empty() || !notes.insert(lines).second || entry.group->rank() != 0) return;
  std::cerr << cat("note: ", entry.group->title_of(entry), ", comes from different lines (", lines,
                   "): right only if they mean the same values\n");
}

void Checked::Together::give_up(const std::string& why, Site at) {
  if (board) board->say(why.c_str());
  throw Error(why, at);
}

std::unique_ptr<Checked> make_checked(std::unique_ptr<Comm> inner, MPI_Comm group,
                                      std::shared_ptr<const double> timeout, std::shared_ptr<Board> board) {
  MPI_Comm own;
  check(MPI_Comm_dup(group, &own), "MPI_Comm_dup");
  auto together = std::make_shared<Checked::Together>();
  together->timeout = std::move(timeout);
  together->board = std::move(board);
  return std::unique_ptr<Checked>(new Checked(std::move(inner), own, std::move(together)));
}

}  // namespace course
