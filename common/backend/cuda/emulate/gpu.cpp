#include "common/backend/cuda/emulate/gpu.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "common/backend/cuda/emulate/block.hpp"
#include "common/backend/cuda/emulate/machine.hpp"
#include "common/check.hpp"
#include "common/signal_stack.hpp"

namespace course::emulate {
namespace {

constexpr int watched[] = {SIGSEGV, SIGILL};
struct sigaction before_us[std::size(watched)];

void give_back(int signal) {
  for (size_t i = 0; i < std::size(watched); ++i)
    if (watched[i] == signal) sigaction(signal, &before_us[i], nullptr);
}

// An address that nobody may touch: inside a kernel it ends the kernel, outside it is the host that is wrong. And where
// the compiler's own check of an address ends (COURSE_EMULATE_CHECKS in cmake/Cuda.cmake): SIGILL.
void on_fault(int signal, siginfo_t* info, void* context) {
  Gpu& gpu = Gpu::get();
  const void* at = info->si_addr;
  const std::string does = signal == SIGSEGV ? refused_access(context) : "";
  static std::string text;
  if (signal == SIGILL && in_kernel()) end_kernel("touches memory at an address that the access's size does not divide");
  if (signal == SIGSEGV && in_kernel()) {
    const Piece* piece = gpu.arena.find(at);
    const bool inside = piece && at >= piece->begin && at < piece->begin + piece->bytes;
    text = !gpu.arena.holds(at) ? cat(does, " address ", at, ", which is not device memory")
           : inside             ? cat(does, " ", gpu.arena.describe(at), " that no argument lets it ",
                                      does == "writes" ? "write" : "touch")
                                : cat(does, " ", gpu.arena.describe(at));
    end_kernel(text.c_str());
  }
  if (signal == SIGSEGV && gpu.arena.holds(at)) {
    text = cat("emulated GPU: the host ", does, " device memory, ", gpu.arena.describe(at),
               "; copy it with cudaMemcpyAsync\n");
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  }
  give_back(signal);  // the access is tried once more, and ends as it would have
}

const char* generic(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
  }
  return "unrecognized error code";
}

}  // namespace

Gpu& Gpu::get() {
  static Gpu gpu;
  return gpu;
}

// Others may have put their own handler in our place, as Catch2 does for each test case.
void Gpu::watch_faults() {
  for (size_t i = 0; i < std::size(watched); ++i) {
    struct sigaction now {};
    sigaction(watched[i], nullptr, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) continue;
    before_us[i] = now;
    have_signal_stack();
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(watched[i], &action, nullptr);
  }
}

cudaError_t Gpu::failed(cudaError_t code, std::string what, bool sticky) {
  text_ = cat(generic(code), ": ", what);
  last_ = code;
  if (sticky) sticky_ = code;
  return code;
}

const char* Gpu::text(cudaError_t code) const {
  return code != cudaSuccess && (code == last_ || code == sticky_) && !text_.empty() ? text_.c_str() : generic(code);
}

cudaError_t Gpu::last() { return std::exchange(last_, sticky_); }

void Gpu::reset() {
  sticky_ = last_ = cudaSuccess;
  text_.clear();
}

bool Gpu::pinned(const void* address) const {
  auto after = pinned_memory.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  return after != pinned_memory.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

cudaError_t Gpu::prepare(cudaStream_t asked, const std::string& what, const std::vector<Touch>& touches,
                         Pieces& pieces) {
  for (const Touch& touch : touches) {
    if (!touch.at || pinned(touch.at)) continue;
    Piece* piece = arena.find(touch.at);
    if (!piece || piece->freed)
      return failed(cudaErrorIllegalAddress,
                    cat(what, " was given ", arena.holds(touch.at) ? cat("an address ", arena.describe(touch.at))
                                                                   : "an address of the host"),
                    true);
    const auto same = std::ranges::find(pieces, piece, &std::pair<Piece*, bool>::first);
    if (same == pieces.end())
      pieces.emplace_back(piece, touch.writes);
    else
      same->second |= touch.writes;
  }
  CUstream_st& own = *stream(asked);
  own.clock.merge(host);
  const auto not_waited = [&](const char* does, const char* did, const Stamp& other) {
    return failed(cudaErrorLaunchFailure,
                  cat(what, " ", does, " what ", other.what, " ", did,
                      " on another stream, and nothing makes it wait; cudaStreamWaitEvent would"),
                  true);
  };
  for (const auto& [piece, writes] : pieces) {
    if (!own.clock.knows(piece->written)) return not_waited(writes ? "writes" : "reads", "writes", piece->written);
    if (writes)
      for (const Stamp& read : piece->read)
        if (!own.clock.knows(read)) return not_waited("writes", "reads", read);
  }
  const Stamp stamp = own.clock.next(own.id, what);
  for (const auto& [piece, writes] : pieces) {
    if (writes) {
      piece->written = stamp;
      piece->read.clear();
    } else {
      std::erase_if(piece->read, [&](const Stamp& s) { return s.stream == stamp.stream; });
      piece->read.push_back(stamp);
    }
  }
  return cudaSuccess;
}

cudaError_t Gpu::later(cudaStream_t asked, std::function<bool()> work) {
  Queue& queue = *stream(asked)->queue;
  ++queue.put;
  queue.open.push_back(std::move(work));
  advance();
  return sticky_;
}

void Gpu::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& queue : queues_)
      while (!queue->open.empty() && queue->open.front()()) {
        queue->open.pop_front();
        ++queue->done;
        moved = true;
      }
  }
  // Of streams that are no more.
  std::erase_if(queues_, [](const auto& queue) { return queue.use_count() == 1 && queue->open.empty(); });
}

}  // namespace course::emulate
