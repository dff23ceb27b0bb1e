#include "common/backend/cuda/emulate/block.hpp"

#include <setjmp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>

#include "common/backend/cuda/emulate/fiber.hpp"
#include "common/check.hpp"

constinit thread_local uint3 threadIdx, blockIdx;
constinit thread_local dim3 blockDim, gridDim;

namespace course::cuda {

// What kernels declare as `extern __shared__ float shared[]`; a little more, to see who writes past the end.
constinit thread_local float shared[(emulate::shared_memory_bytes + 256) / sizeof(float)];

}  // namespace course::cuda

namespace course::emulate {
namespace {

constexpr int all_lanes = -1;
constexpr unsigned char nobody_wrote = 0xff;  // four of them are a NaN

enum class State { Ready, AtBarrier, AtShuffle, Done };

struct Thread {
  uint3 index;
  State state = State::Ready;
  Fiber* fiber = nullptr;        // since it first waited
  std::source_location at = {};  // where it waits
  unsigned mask = 0;             // of the shuffle it waits in
  int from = 0;                  // the lane it reads, or all_lanes: then a bit of each
  uint64_t bits = 0, result = 0; // what it brings, what it gets
};

std::string show(const uint3& i) { return cat("(", i.x, ",", i.y, ",", i.z, ")"); }

// The turns of a warp's lanes: from `first` on, `step` further each time, an odd number so that each has its turn.
struct Turns {
  unsigned first = 0, step = 1;
  int64_t at(int64_t i) const { return (first + static_cast<unsigned>(i) * step) % 32; }
};

// The order of turns.
class Order {
 public:
  Order() {
    const char* said = std::getenv("COURSE_EMULATE_ORDER");
    const std::string order = said ? said : "1";
    backward_ = order == "backward";
    drawn_ = !backward_ && order != "forward";
    if (drawn_) random_.seed(std::strtoull(order.c_str(), nullptr, 10));
  }
  const std::vector<int64_t>& of(int64_t n) {
    if (static_cast<int64_t>(order_.size()) != n) {
      order_.resize(n);
      std::iota(order_.begin(), order_.end(), 0);
      if (backward_) std::reverse(order_.begin(), order_.end());
    }
    if (drawn_) std::shuffle(order_.begin(), order_.end(), random_);
    return order_;
  }
  Turns of_lanes() {
    if (!drawn_) return backward_ ? Turns{31, 31} : Turns{};
    const auto drawn = static_cast<unsigned>(random_());
    return {drawn, drawn >> 5 | 1};
  }

 private:
  bool backward_, drawn_;
  std::mt19937 random_;
  std::vector<int64_t> order_;
};

// Threads run on one fiber, one after another, as long as none of them waits. One that does keeps the fiber, and the next
// begins on another: a kernel without barriers and shuffles is a plain loop.
class Block {
 public:
  std::string run(dim3 grid, uint3 index, dim3 size, Body body);
  Thread& running() { return *running_; }
  int lane_of_running() const { return lane_; }
  Thread& wait(State state, std::source_location at);  // gives the others their turn

 private:
  void prepare(dim3 size);
  void begin(int64_t warp);
  void begin_threads();
  bool advance(int64_t warp);
  void resume(Fiber& fiber);
  void give_turn(int64_t warp_begin, int64_t lane) {
    running_ = &threads_[warp_begin + lane];
    lane_ = static_cast<int>(lane);
    threadIdx = running_->index;
  }
  void release_barrier();
  void release_shuffles(int64_t warp);
  unsigned ballot_of(size_t begin, unsigned mask) const;
  std::string stuck() const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> spare_;  // those on which no thread waits
  std::vector<Thread> threads_;
  dim3 size_{0, 0, 0};
  Thread* running_ = nullptr;
  int lane_ = 0;  // of the one that runs
  Body body_{};
  int64_t first_ = 0, lanes_ = 0, next_ = 32;  // of the warp that begins: its first thread, how many, whose turn is next
  Turns turns_;
  int64_t done_ = 0, at_barrier_ = 0;
  Order warp_order_, lane_order_;
};

void Block::prepare(dim3 size) {
  const int64_t n = int64_t{size.x} * size.y * size.z;
  if (size.x != size_.x || size.y != size_.y || size.z != size_.z) {
    threads_.assign(n, {});
    for (int64_t t = 0; t < n; ++t) {
      const auto i = static_cast<unsigned>(t);
      threads_[t].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    }
    size_ = size;
  }
  for (Thread& t : threads_) t.state = State::Ready, t.fiber = nullptr;
  done_ = at_barrier_ = 0;
  next_ = 32;
  if (spare_.size() == fibers_.size()) return;
  spare_.clear();  // the block before did not come to its end
  for (const auto& fiber : fibers_) spare_.push_back(fiber.get());
}

std::string Block::run(dim3 grid, uint3 index, dim3 size, Body body) {
  prepare(size);
  body_ = body;
  gridDim = grid, blockDim = size, blockIdx = index;
  // A warp goes on until it waits at a barrier or is done, so it may be a whole phase ahead of the others: whoever writes
  // what another warp has still to read is seen.
  const int64_t n = std::ssize(threads_), warps = (n + 31) / 32;
  for (bool first = true; done_ < n; first = false) {
    bool moved = first;
    for (const int64_t warp : warp_order_.of(warps)) {
      if (first) {
        begin(warp);
        release_shuffles(warp);
      }
      while (advance(warp)) {
        moved = true;
        release_shuffles(warp);
      }
    }
    if (!moved) return stuck();
    release_barrier();
  }
  return "";
}

// Every thread of a warp runs until it waits or is done.
void Block::begin(int64_t warp) {
  first_ = 32 * warp;
  lanes_ = std::min<int64_t>(32, std::ssize(threads_) - first_);
  turns_ = lane_order_.of_lanes();
  next_ = 0;
  while (next_ < 32) {
    if (spare_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(128 << 10, fibers_.size()));
      spare_.push_back(fibers_.back().get());
    }
    Fiber& fiber = *spare_.back();
    spare_.pop_back();
    fiber.start([](void* block) { static_cast<Block*>(block)->begin_threads(); }, this);
    resume(fiber);
  }
}

// On a fiber. A thread that waited comes back here when it is done; then its warp has no thread that is still to begin.
void Block::begin_threads() {
  while (next_ < 32) {
    const int64_t lane = turns_.at(next_++);
    if (lane >= lanes_) continue;
    give_turn(first_, lane);
    body_.run(body_.with);
    running_->state = State::Done;
    ++done_;
  }
}

void Block::resume(Fiber& fiber) {
  fiber.resume();
  if (fiber.done())
    spare_.push_back(&fiber);
  else
    running_->fiber = &fiber;
}

// Gives each thread of a warp that is ready its turn. False if none was.
bool Block::advance(int64_t warp) {
  bool moved = false;
  const int64_t begin = 32 * warp, lanes = std::min<int64_t>(32, std::ssize(threads_) - begin);
  const Turns turns = lane_order_.of_lanes();
  for (int64_t i = 0; i < 32; ++i) {
    const int64_t lane = turns.at(i);
    if (lane >= lanes || threads_[begin + lane].state != State::Ready) continue;
    give_turn(begin, lane);
    resume(*running_->fiber);
    moved = true;
  }
  return moved;
}

Thread& Block::wait(State state, std::source_location at) {
  Thread& me = *running_;
  me.state = state;
  me.at = at;
  at_barrier_ += state == State::AtBarrier;
  Fiber::pause();
  return me;
}

void Block::release_barrier() {
  if (at_barrier_ < std::ssize(threads_)) return;
  const std::source_location first = threads_[0].at;
  if (!std::ranges::all_of(threads_, [&](const Thread& t) { return t.at.line() == first.line(); })) return;
  for (Thread& t : threads_) t.state = State::Ready;
  at_barrier_ = 0;
}

void Block::release_shuffles(int64_t warp) {
  const size_t begin = 32 * warp, lanes = std::min<size_t>(32, threads_.size() - begin);
  for (size_t i = 0; i < lanes; ++i) {
    Thread& first = threads_[begin + i];
    if (first.state != State::AtShuffle) continue;
    const unsigned mask = first.mask;
    bool complete = (mask >> i & 1) && (lanes == 32 || mask >> lanes == 0);
    for (size_t j = 0; j < lanes && complete; ++j)
      if (mask >> j & 1) {
        const Thread& t = threads_[begin + j];
        complete = t.state == State::AtShuffle && t.mask == mask && t.at.line() == first.at.line();
      }
    for (size_t j = 0; j < lanes && complete; ++j)
      if (mask >> j & 1) {
        Thread& t = threads_[begin + j];
        t.state = State::Ready;
        if (t.from == all_lanes)
          t.result = ballot_of(begin, mask);
        else
          t.result = mask >> t.from & 1 ? threads_[begin + t.from].bits : ~uint64_t{0};  // a lane that brings nothing
      }
  }
}

// Bit i is what lane i of those in the mask has brought.
unsigned Block::ballot_of(size_t begin, unsigned mask) const {
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1) bits |= static_cast<unsigned>(threads_[begin + i].bits) << i;
  return bits;
}

std::string Block::stuck() const {
  const auto waits = [](const Thread& t) { return t.state != State::Done; };
  const auto first = std::ranges::find_if(threads_, waits);
  const bool barrier = first->state == State::AtBarrier;
  const auto of_warp = (first - threads_.begin()) / 32 * 32;  // a shuffle concerns its warp, a barrier all
  const auto begin = barrier ? threads_.begin() : threads_.begin() + of_warp;
  const auto end = barrier || threads_.end() - begin < 32 ? threads_.end() : begin + 32;
  const auto found = std::find_if(begin, end, [&](const Thread& t) {
    return t.state != first->state || t.at.line() != first->at.line();
  });
  const auto elsewhere = found == end ? threads_.end() : found;
  const std::string who = cat("thread ", show(first->index), " of block ", show(blockIdx), " waits at ",
                              place_of(first->at));
  const std::string rest =
      elsewhere == threads_.end() ? "no lane is missing, but the mask names lanes that this block has not"
      : elsewhere->state == State::Done
          ? cat("thread ", show(elsewhere->index), " has ended")
          : cat("thread ", show(elsewhere->index), " waits at ", place_of(elsewhere->at));
  return cat(barrier ? "a barrier that not all threads reach: " : "a shuffle without all lanes of its mask: ", who, ", ",
             rest);
}

thread_local Block* current = nullptr;
thread_local sigjmp_buf escape;
thread_local const char* escape_reason = nullptr;

}  // namespace

std::string run_grid(dim3 grid, dim3 block, size_t shared_bytes, Body body) {
  static thread_local Block threads;
  static thread_local Order order;
  const std::vector<int64_t> blocks = order.of(int64_t{grid.x} * grid.y * grid.z);
  current = &threads;
  if (sigsetjmp(escape, 1) != 0) {
    current = nullptr;
    return cat(escape_reason, ", by thread ", show(threadIdx), " of block ", show(blockIdx));
  }
  const auto all = static_cast<unsigned char*>(static_cast<void*>(cuda::shared));
  for (const int64_t b : blocks) {
    const auto i = static_cast<unsigned>(b);
    std::memset(all, nobody_wrote, shared_bytes + 256);
    std::string wrong = threads.run(grid, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}, block, body);
    const bool past = std::any_of(all + shared_bytes, all + shared_bytes + 256,
                                  [](unsigned char c) { return c != nobody_wrote; });
    if (wrong.empty() && past)
      wrong = cat("block ", show(blockIdx), " wrote past its ", shared_bytes, " bytes of shared memory");
    if (!wrong.empty()) {
      current = nullptr;
      return wrong;
    }
  }
  current = nullptr;
  return "";
}

bool in_kernel() { return current != nullptr; }

void end_kernel(const char* why) {
  escape_reason = why;
  siglongjmp(escape, 1);
}

void sync_threads(std::source_location at) { current->wait(State::AtBarrier, at); }

int lane() { return current->lane_of_running(); }

unsigned ballot(unsigned mask, bool mine, std::source_location at) {
  return static_cast<unsigned>(exchange(mask, mine, all_lanes, at));
}

uint64_t exchange(unsigned mask, uint64_t mine, int from_lane, std::source_location at) {
  Thread& me = current->running();
  me.bits = mine;
  me.from = from_lane;
  me.mask = mask;
  return current->wait(State::AtShuffle, at).result;
}

}  // namespace course::emulate
