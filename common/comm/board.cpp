#include "common/comm/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "common/clock.hpp"
#include "common/comm/mpi_comm.hpp"
#include "common/handler_safe_line.hpp"
#include "common/last_words.hpp"

namespace course {
namespace {

enum class State : int { Running, AtEnd, Lost };
constexpr size_t kHeading = 4000, kRow = 1000;  // bytes of text

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::strncpy(to, from, N - 1);
  to[N - 1] = 0;
}

void pause(int milliseconds) {
  const timespec moment = {0, milliseconds * 1'000'000L};
  nanosleep(&moment, nullptr);
}

struct Shown {
  int64_t number, bytes;  // number 0: none
  uint32_t line;
  int peer;
  char what[24], axis[20], file[40];
  void show(HandlerSafeLine& to) const {
    if (!number) {
      to << "none";
      return;
    }
    const bool sends = std::strcmp(what, "send") == 0, receives = std::strcmp(what, "recv") == 0;
    to << (sends || receives ? "message " : "call ") << number << " " << what;
    if (bytes > 0) to << " of " << bytes << " bytes";
    if (peer >= 0) to << (sends ? " to rank " : " from rank ") << int64_t{peer};
    to << " on " << axis << " (" << file << ":" << int64_t{line} << ")";
  }
};

Board* of_this_process = nullptr;  // for what the system calls without an argument: signals and exit()
int its_process = 0;               // a child of fork() has no board

// The lines of this process's board. False where there is none.
bool say_of_all_ranks(const char* cause) {
  if (!of_this_process || its_process != getpid()) return false;
  of_this_process->say_last_words(cause);
  return true;
}

}  // namespace

struct Board::Row {
  std::atomic<uint32_t> version;  // odd while its rank writes
  std::atomic<State> state;
  std::atomic<double> seen;  // when the rank last started, asked for or completed a call
  int rank, more;
  Shown last, pending;
  double since;  // of pending
  char why[500];
};

struct Board::Memory {
  std::atomic<int> said;  // 0, 1 while someone says it, 2
  Row rows[1];            // as many as the node has ranks
};

struct Board::Open {
  int64_t id;
  Shown call;
  double since;
};

Board::Board(MPI_Comm world) {
  static_assert(std::atomic<double>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  MPI_Comm node;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int rank = 0, place = 0;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &world_size_);
  MPI_Comm_rank(node, &place);
  MPI_Comm_size(node, &node_size_);
  bytes_ = sizeof(Memory) + sizeof(Row) * node_size_;

  char name[64] = {};
  int file = -1;
  if (place == 0) {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    copy_text(name, cat("/shard-by-shard-", getpid(), "-", t.tv_nsec).c_str());
    file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file >= 0 && posix_fallocate(file, 0, static_cast<off_t>(bytes_)) != 0) close(file), file = -1;
  }
  check(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, node), "MPI_Bcast");
  if (place != 0) file = shm_open(name, O_RDWR, 0600);
  void* at = file >= 0 ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (file >= 0) close(file);
  int all_have = at != MAP_FAILED;  // and from here on nobody opens it any more
  check(MPI_Allreduce(MPI_IN_PLACE, &all_have, 1, MPI_INT, MPI_MIN, world), "MPI_Allreduce");
  if (place == 0) shm_unlink(name);
  MPI_Comm_free(&node);
  require_shared(all_have, "--check-collectives: no shared memory (", bytes_, " bytes in /dev/shm)");

  memory_ = static_cast<Memory*>(at);  // zeros: nothing said, all rows running
  mine_ = memory_->rows + place;
  mine_->rank = rank;
  mine_->seen = seconds_now();
  mine_->version = 2;  // the row is in use
  text_.resize(kHeading + kRow * (node_size_ + 1));
  its_process = getpid();
  of_this_process = this;
  speak_through(say_of_all_ranks);
}

Board::~Board() {
  comes_to_end();
  speak_through(nullptr);
  of_this_process = nullptr;
  munmap(memory_, bytes_);
}

int64_t Board::begin(const Noted& noted) {
  Shown call = {noted.number, noted.bytes, noted.at.line(), noted.peer, {}, {}, {}};
  copy_text(call.what, noted.what);
  copy_text(call.axis, noted.axis.c_str());
  copy_text(call.file, file_name(noted.at.file_name()));
  const double since = seconds_now();
  open_.push_back({++begun_, call, since});
  mine_->seen.store(since, std::memory_order_relaxed);
  show_pending();
  return begun_;
}

void Board::end(int64_t id) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.id == id; });
  if (found == open_.end()) return;
  mine_->version.fetch_add(1);
  mine_->last = found->call;
  mine_->version.fetch_add(1);
  open_.erase(found);
  mine_->seen.store(seconds_now(), std::memory_order_relaxed);
  show_pending();
}

void Board::show_pending() {
  mine_->version.fetch_add(1);
  mine_->more = static_cast<int>(open_.size()) - 1;
  if (open_.empty()) {
    mine_->pending.number = 0;
  } else {
    mine_->pending = open_.front().call;
    mine_->since = open_.front().since;
  }
  mine_->version.fetch_add(1);
}

void Board::seen() { mine_->seen.store(seconds_now(), std::memory_order_relaxed); }
void Board::comes_to_end() { mine_->state = State::AtEnd; }

bool Board::has_ended(int world_rank) const {
  for (int r = 0; r < node_size_; ++r)
    if (memory_->rows[r].version != 0 && memory_->rows[r].rank == world_rank)
      return memory_->rows[r].state == State::AtEnd;
  return false;
}

void Board::say(const char* heading) {
  int nobody = 0;
  if (!memory_->said.compare_exchange_strong(nobody, 1)) {
    for (int i = 0; i < 200 && memory_->said != 2; ++i) pause(10);  // should the one who says it die over it
    return;
  }
  constexpr double kAway = 1;  // seconds: a rank that waits asks far more often
  HandlerSafeLine line(text_.data(), text_.size());
  if (*heading) line.at_most(kHeading, heading) << "\n";
  for (int r = 0; r < node_size_; ++r) {
    Row row = {};
    for (int attempt = 0; attempt < 1000; ++attempt) {  // of a rank that died while it wrote: as it is
      const uint32_t before = memory_->rows[r].version;
      std::memcpy(static_cast<void*>(&row), static_cast<const void*>(&memory_->rows[r]), sizeof row);
      if (before % 2 == 0 && memory_->rows[r].version == before) break;
    }
    if (row.version == 0) continue;
    line << "rank " << int64_t{row.rank} << ": " << row.why << (*row.why ? "; " : "") << "last ";
    row.last.show(line);
    line << ", pending ";
    row.pending.show(line);
    if (row.pending.number && row.more > 0) line << " and " << int64_t{row.more} << " more";
    const double now = seconds_now(), away = now - row.seen;
    if (row.state == State::AtEnd)
      line << ", at the end of the program";
    else if (row.state == State::Running && row.pending.number && away < kAway)
      (line << ", waiting for ").seconds(now - row.since);
    else if (row.state == State::Running)
      (line << ", computing for ").seconds(away);
    line << "\n";
  }
  if (node_size_ < world_size_)
    line << int64_t{world_size_ - node_size_} << " ranks of other nodes are not seen from here\n";
  line.write(STDERR_FILENO);
  pause(200);  // MPICH's launcher drops what it has not read when a rank ends
  memory_->said = 2;
}

void Board::say_last_words(const char* why) {
  if (memory_->said == 0) {
    mine_->version.fetch_add(1);
    copy_text(mine_->why, why);
    mine_->version.fetch_add(1);
    mine_->state = State::Lost;
  }
  say("");
}

}  // namespace course
