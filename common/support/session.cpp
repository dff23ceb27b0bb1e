#include "common/support/session.hpp"

#include <mpi.h>
#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <set>
#include <utility>

#include "common/comm/checked.hpp"
#include "common/comm/direct.hpp"
#include "common/comm/mpi_comm.hpp"
#include "common/comm/nccl_comm.hpp"
#include "common/comm/staged.hpp"
#include "common/last_words.hpp"
#include "common/support/cli.hpp"
#include "common/support/table.hpp"
#include "common/support/timed.hpp"

namespace course {
namespace {

int64_t cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Memory and swap of this node, or the control group's limit where that is less. Bytes.
double memory_of_node() {
  struct sysinfo info {};
  sysinfo(&info);
  double bytes = static_cast<double>(info.totalram + info.totalswap) * info.mem_unit, limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

int code_of(const std::function<void(Session&)>& body, Session& session) {
  try {
    body(session);
    return 0;
  } catch (const EarlyExit& exit) {
    return exit.code;
  }
}

// Seconds that ranks which all saw the same fault may be apart.
constexpr double kTogether = 5;
// What a rank says when it leaves.
constexpr double kSharedFault = 0, kNoFault = 1;

}  // namespace

struct Session::Node {
  int ranks = 1, rank = 0;  // on it; this one among them
  int first = 0;            // of its ranks, in the world
  static Node of_this_rank();
};

Session::Node Session::Node::of_this_rank() {
  MPI_Comm node;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  Node found;
  MPI_Comm_size(node, &found.ranks);
  MPI_Comm_rank(node, &found.rank);
  MPI_Comm_rank(MPI_COMM_WORLD, &found.first);
  check(MPI_Bcast(&found.first, 1, MPI_INT, 0, node), "MPI_Bcast");
  MPI_Comm_free(&node);
  return found;
}

Session::Session(int argc, char** argv) : argc_(argc), argv_(argv), timeout_(std::make_shared<double>(SessionOptions{}.timeout)) {
  speak_at_the_end(-1);
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  std::signal(SIGXFSZ, SIG_IGN);  // a file past `ulimit -f`: the write fails, and says so
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  world_ = make_mpi_comm(MPI_COMM_WORLD, "world", timeout_);
  farewell_ = make_mpi_comm(MPI_COMM_WORLD, "the end of the run", timeout_);
  speak_at_the_end(rank());  // again: MPI's libraries bring handlers of their own
  out_ = std::make_unique<std::ostream>(rank() == 0 ? std::cout.rdbuf() : nullptr);
}

Session::~Session() {
  try {
    if (!left_) farewell_->max(kNoFault);  // MPI_Finalize itself would wait for ever
  } catch (const Error& error) {
    abort(error.what());
  }
  farewell_.reset();
  world_.reset();
  host_.reset();
  board_.reset();
  backend_.reset();
  MPI_Finalize();
  ends_in_order();
}

int Session::rank() const { return world_->rank(); }
int Session::size() const { return world_->size(); }

void Session::set_up(const SessionOptions& options) {
  const Node node = Node::of_this_rank();
  ranks_of_node_ = node.ranks;
  memory_ = world_->sum(memory_of_node() / static_cast<double>(ranks_of_node_));
  *timeout_ = options.timeout;
  threads_ = options.threads > 0 ? options.threads : std::max<int64_t>(1, cores() / ranks_of_node_);
  // All ranks compute on one kind of device, or their sums differ.
  const int devices = options.device == "cpu" ? 0 : cuda_devices();
  const bool everywhere = -world_->max(-devices) > 0;
  bool by_mpi = false;
  if (options.device == "cuda" || (options.device == "auto" && everywhere)) {
    const int device = devices ? node.rank % devices : 0;
    together(*world_, [&] { backend_ = make_cuda_backend(device, options.tf32); });
    by_mpi = !connect_gpus(options.nccl, device, node);
  } else {
    backend_ = make_cpu_backend(static_cast<int>(threads_));
    if (options.tf32 && rank() == 0) std::cerr << "note: --tf32 does nothing on the CPU: its f32 products are f32\n";
  }
  if (options.check_collectives && !checked_ && size() > 1) {
    board_ = std::make_shared<Board>(MPI_COMM_WORLD);
    auto checked = make_checked(std::move(world_), MPI_COMM_WORLD, timeout_, board_);
    checked_ = checked.get();
    world_ = std::move(checked);
  }
  if (by_mpi && size() > 1 && mpi_takes_gpu_memory())
    world_ = std::make_unique<Direct>(std::move(world_), *backend_);
  else if (by_mpi)
    world_ = std::make_unique<Staged>(std::move(world_), *backend_);
  if (options.trace.empty()) return;
  trace_ = std::make_unique<TraceFile>(options.trace, *world_, *backend_);
  watch().record(kMaxTraceEvents);
}

// NCCL takes one rank a GPU. Which GPU a number means differs by process (CUDA_VISIBLE_DEVICES), so cards are compared.
bool Session::connect_gpus(const std::string& nccl, int device, const Node& node) {
  const std::string mine = cat(node.first, " ");
  const auto all = world_->all_gather_text(mine + cuda_device_id(device));
  const std::set<std::string> cards(all.begin(), all.end());
  const auto here = std::ranges::count_if(cards, [&](const std::string& card) { return card.starts_with(mine); });
  const bool shared = cards.size() < all.size();
  require_usage(nccl != "shared" || has_nccl(), "--nccl shared: this build has no NCCL; use --nccl off");
  const char* way = nccl == "shared" ? "they talk by NCCL in a way that is not documented before NCCL 2.30; if it fails, --nccl off"
                                     : "they talk by way of the host's memory, and are no faster than one rank for each";
  if (node.rank == 0 && node.ranks > here)
    std::cerr << cat("note: ", node.ranks, " ranks share ", here, here == 1 ? " GPU" : " GPUs", ": ", way, "\n");
  if (nccl == "off" || !has_nccl() || size() == 1 || (shared && nccl != "shared")) return false;
  if (shared) let_ranks_share_a_gpu(rank(), node.ranks == size());
  std::unique_ptr<Comm> connected;
  together(*world_, [&] { connected = make_nccl_comm(*world_, *backend_, timeout_); });
  host_ = std::exchange(world_, std::move(connected));
  return true;
}

Backend& Session::backend() {
  require(backend_, "no device yet: call Cli::parse or Session::set_up first");
  if (!std::exchange(set_out_, true) && rank() == 0 && ranks_of_node_ > cores())
    std::cerr << cat("note: ", ranks_of_node_, " ranks share ", cores(), cores() == 1 ? " core" : " cores",
                     ": they take turns, and times say little\n");
  taken_ = true;
  return *backend_;
}

bool Session::has_bf16() {
  require(backend_, "no device yet: call Cli::parse or Session::set_up first");
  return world_->max(backend_->has_bf16() ? 0 : 1) == 0;
}

ObservedBackend& Session::observed() {
  if (observed_) return *observed_;
  require(backend_ && !taken_, "kernels are observed from Cli::parse on, before anything takes the backend");
  auto observed = std::make_unique<ObservedBackend>(std::move(backend_));
  observed_ = observed.get();
  backend_ = std::move(observed);
  return *observed_;
}

Activity& Session::watch() {
  if (activity_) return *activity_;
  activity_ = std::make_unique<Activity>();
  observed().observe([this](const Kernel& kernel) { activity_->kernel(kernel); }, Times::OfWork);
  if (rank() == 0 && backend_->memory().device() != Device::Cpu)
    std::cerr << "note: each kernel is waited for, so that its time is true; --quiet without --trace leaves that out\n";
  world_ = std::make_unique<Timed>(std::move(world_), *activity_);
  return *activity_;
}

void Session::finish() {
  if (trace_) {
    activity_->stop_recording();
    const std::string line = trace_->write(*activity_, *world_);
    if (rank() == 0) std::cerr << line << std::endl;
  }
  if (checked_) checked_->end();
}

bool Session::leave_together() {
  const double limit = std::exchange(*timeout_, kTogether);
  try {
    left_ = farewell_->max(kSharedFault) == kSharedFault;
  } catch (const Error&) {
  }
  *timeout_ = limit;
  return left_;
}

void Session::abort(const std::string& what) { end_all_ranks(what); }

int run_program(int argc, char** argv, const std::function<void(Session&)>& body) {
  Session session(argc, argv);
  try {
    const int code = code_of(body, session);
    session.finish();
    return code;
  } catch (const SharedError& error) {
    if (!session.leave_together()) session.abort(error.what());  // it was this rank's alone
    if (session.rank() == 0) std::cerr << error.what() << std::endl;
    return dynamic_cast<const UsageError*>(&error) ? 2 : 1;
  } catch (...) {
    session.abort(words_of_current_exception());
  }
}

void require_room(Session& session, double bytes, const std::string& what) {
  const auto show = [](double n) { return human_bytes(static_cast<int64_t>(std::min(n, 9e18))); };
  require_usage(bytes <= session.memory(), what, ": takes ", show(bytes), " at the least, of memory there are ",
                show(session.memory()));
}

void together(Comm& comm, const std::function<void()>& part, Site at) {
  constexpr char kUsage = 'u', kFailed = 'f';  // what the text sent begins with
  std::string wrong;
  try {
    part();
  } catch (const UsageError& error) {
    wrong = cat(kUsage, error.what());
  } catch (const std::exception& error) {
    wrong = cat(kFailed, words_of(error));
  }
  if (comm.max(wrong.empty() ? 0 : 1, at) == 0) return;
  const auto all = comm.all_gather_text(wrong, at);
  const bool alike = std::all_of(all.begin(), all.end(), [&](const auto& text) { return text == all[0]; });
  for (int r = 0; r < comm.size(); ++r) {
    if (all[r].empty()) continue;
    const std::string words = all[r].substr(1);
    if (all[r][0] == kUsage) throw UsageError(words);
    throw SharedError(alike ? words : cat("rank ", r, ": ", words));
  }
}

}  // namespace course
