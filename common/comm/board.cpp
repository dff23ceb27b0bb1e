#include "common/comm/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "common/check.hpp"
#include "common/comm/mpi_comm.hpp"

namespace course {
namespace {

enum class State : int { Running, Ended, Left, Threw, Killed };

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);  // one clock for all ranks of the node
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV, a bad memory access";
    case SIGBUS:
      return "SIGBUS, a bad memory access";
    case SIGFPE:
      return "SIGFPE, an arithmetic error";
    case SIGILL:
      return "SIGILL, a bad instruction";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "a signal";
  }
}
constexpr int kFatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Text in a given buffer, by nothing that a signal handler must not call.
class Line {
 public:
  Line(char* into, size_t room) : into_(into), room_(room) {}
  Line& operator<<(const char* text) {
    while (*text && size_ < room_) into_[size_++] = *text++;
    return *this;
  }
  Line& operator<<(int64_t n) {
    char digits[24];
    int at = sizeof digits;
    digits[--at] = 0;
    const bool below = n < 0;
    do digits[--at] = static_cast<char>('0' + (n < 0 ? -(n % 10) : n % 10));
    while ((n /= 10) != 0);
    if (below) digits[--at] = '-';
    return *this << digits + at;
  }
  Line& seconds(double s) {
    const auto tenths = static_cast<int64_t>(std::max(s, 0.0) * 10);
    return *this << tenths / 10 << "." << tenths % 10 << " s";
  }
  void print() const {
    for (size_t at = 0; at < size_;) {
      const ssize_t n = write(STDERR_FILENO, into_ + at, size_ - at);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) at += static_cast<size_t>(n);
    }
  }

 private:
  char* into_;
  size_t room_, size_ = 0;
};

template <size_t N>
void copy_text(char (&to)[N], const char* from) {
  std::strncpy(to, from, N - 1);
  to[N - 1] = 0;
}

Board* watched = nullptr;  // for what the system calls without an argument: signals and exit()

}  // namespace

struct Board::Call {
  int64_t number, bytes;  // number 0: none
  uint32_t line;
  char what[16], axis[16], file[40];
  void show(Line& to) const {
    to << "call " << number << " " << what;
    if (bytes > 0) to << " of " << bytes << " bytes";
    to << " on " << axis << " (" << file << ":" << static_cast<int64_t>(line) << ")";
  }
};

struct Board::Row {
  std::atomic<uint32_t> version;  // odd while its rank writes
  std::atomic<State> state;
  std::atomic<double> seen;  // when the rank last started, asked for or completed a call
  int rank, signal, more;
  Call last, pending;
  double since;  // of pending
};

struct Board::Memory {
  std::atomic<int> said;  // 0, 1 while someone says it, 2
  Row rows[1];            // as many as the node has ranks
};

struct Board::Open {
  int64_t id;
  Call call;
  double since;
};

const char* file_of(const std::source_location& at) {
  const char* slash = std::strrchr(at.file_name(), '/');
  return slash ? slash + 1 : at.file_name();
}

Board::Board(MPI_Comm world) : pid_(getpid()) {
  static_assert(std::atomic<double>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
  MPI_Comm node;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int place = 0;
  MPI_Comm_rank(world, &rank_);
  MPI_Comm_size(world, &world_size_);
  MPI_Comm_rank(node, &place);
  MPI_Comm_size(node, &node_size_);
  bytes_ = sizeof(Memory) + sizeof(Row) * node_size_;

  char name[64] = {};
  int file = -1;
  if (place == 0) {
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    copy_text(name, cat("/shard-by-shard-", pid_, "-", t.tv_nsec).c_str());
    file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes_)) != 0) close(file), file = -1;
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
  mine_->rank = rank_;
  mine_->seen = now();
  mine_->version = 2;  // the row is in use
  text_.resize(1000 + 400 * node_size_);
  watched = this;
  static const bool once = std::atexit(on_exit) == 0;
  (void)once;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : kFatal) sigaction(signal, &action, nullptr);
}

Board::~Board() {
  mine_->state = State::Ended;
  watched = nullptr;
  munmap(memory_, bytes_);
}

int64_t Board::begin(const Noted& noted) {
  Call call = {noted.number, noted.bytes, noted.at.line(), {}, {}, {}};
  copy_text(call.what, noted.what);
  copy_text(call.axis, noted.axis.c_str());
  copy_text(call.file, file_of(noted.at));
  const double since = now();
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
  mine_->seen.store(now(), std::memory_order_relaxed);
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

void Board::seen() { mine_->seen.store(now(), std::memory_order_relaxed); }
void Board::threw() { mine_->state = State::Threw; }

bool Board::has_ended(int world_rank) const {
  for (int r = 0; r < node_size_; ++r) {
    const State state = memory_->rows[r].state;
    if (memory_->rows[r].version != 0 && memory_->rows[r].rank == world_rank)
      return state == State::Ended || state == State::Left;
  }
  return false;
}

bool Board::say(const char* first) {
  int nobody = 0;
  if (!memory_->said.compare_exchange_strong(nobody, 1)) {
    const timespec moment = {0, 10'000'000};
    for (int i = 0; i < 200 && memory_->said != 2; ++i) nanosleep(&moment, nullptr);
    return false;
  }
  constexpr double kAway = 1;  // seconds: a rank that waits asks far more often
  Line line(text_.data(), text_.size());
  line << first << "\n";
  for (int r = 0; r < node_size_; ++r) {
    Row row = {};
    for (int attempt = 0; attempt < 1000; ++attempt) {  // of a rank that died while it wrote: as it is
      const uint32_t before = memory_->rows[r].version;
      std::memcpy(static_cast<void*>(&row), static_cast<const void*>(&memory_->rows[r]), sizeof row);
      if (before % 2 == 0 && memory_->rows[r].version == before) break;
    }
    if (row.version == 0) continue;
    const double at = now(), away = at - row.seen;
    line << "rank " << static_cast<int64_t>(row.rank) << ": last ";
    if (row.last.number)
      row.last.show(line);
    else
      line << "call: none";
    line << ", pending: ";
    if (row.pending.number) {
      row.pending.show(line);
      if (row.more > 0) line << " and " << static_cast<int64_t>(row.more) << " more";
    } else {
      line << "none";
    }
    line << ", ";
    switch (row.state) {
      case State::Running:
        if (row.pending.number && away < kAway)
          line << "waiting for ", line.seconds(at - row.since);
        else
          line << "computing for ", line.seconds(away);
        break;
      case State::Ended:
        line << "ended";
        break;
      case State::Left:
        line << "left by exit()";
        break;
      case State::Threw:
        line << "threw";
        break;
      case State::Killed:
        line << "died of " << name_of_signal(row.signal);
        break;
    }
    line << "\n";
  }
  if (node_size_ < world_size_)
    line << static_cast<int64_t>(world_size_ - node_size_) << " ranks of other nodes are not seen from here\n";
  line.print();
  memory_->said = 2;
  return true;
}

void Board::on_exit() {
  Board* const board = watched;
  if (!board || board->pid_ != getpid() || board->memory_->said == 2 || board->mine_->state != State::Running) return;
  board->mine_->state = State::Left;
  char text[100] = {};
  Line(text, sizeof text - 1) << "rank " << static_cast<int64_t>(board->rank_)
                              << ": exit() before the end of the program";
  board->say(text);
}

void Board::on_signal(int signal) {
  Board* const board = watched;
  if (board && board->pid_ == getpid()) {
    watched = nullptr;
    board->mine_->signal = signal;
    board->mine_->state = State::Killed;
    char text[100] = {};
    Line(text, sizeof text - 1) << "rank " << static_cast<int64_t>(board->rank_) << ": " << name_of_signal(signal);
    board->say(text);
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

}  // namespace course
