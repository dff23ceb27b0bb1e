#include "common/comm/nccl_calls.hpp"

#include <sched.h>

#include <algorithm>
#include <ranges>

#include "common/clock.hpp"

namespace course {
namespace {

ncclConfig_t not_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // or a rank that does not come would hold the others for ever
  return config;
}

std::string words_of(ncclResult_t result, ncclComm_t comm) {
  std::string words = ncclGetErrorString(result);
  const char* last = ncclGetLastError(comm);
  if (last && *last) words += cat(": ", last);
  std::ranges::replace(words, '\n', ' ');
  return words;
}

}  // namespace

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::F32: return ncclFloat32;
    case DType::BF16: return ncclBfloat16;
    case DType::I32: return ncclInt32;
    case DType::I64: return ncclInt64;
    case DType::F64: return ncclFloat64;
    case DType::U8: return ncclUint8;
  }
  fail("no such type");
}

NcclCalls::NcclCalls(CudaBackend& backend, std::shared_ptr<const double> timeout)
    : backend_(backend), timeout_(std::move(timeout)), stream_(backend.device()) {
  look_before_ = backend_.while_waiting([this] {
    look();
    if (look_before_) look_before_();
  });
}

NcclCalls::~NcclCalls() {
  for (const ncclComm_t comm : std::views::reverse(comms_)) ncclCommAbort(comm);
  backend_.while_waiting(std::move(look_before_));
}

ncclComm_t NcclCalls::connect(const ncclUniqueId& id, int rank, int size, const Title& title) {
  ncclConfig_t config = not_blocking();
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, size, id, rank, &config);
  if (comm) comms_.push_back(comm);
  const char* hint =
      "; two ranks on one GPU, or no way between the ranks (NCCL_DEBUG=INFO says more)? --nccl off goes by the host's memory";
  if (!went_well(result)) give_up(result, title, hint);
  settle(comm, title, hint);
  return comm;
}

ncclComm_t NcclCalls::split(ncclComm_t from, int color, int key, const Title& title) {
  require(dead_.empty(), dead_);
  send_messages();
  ncclConfig_t config = not_blocking();
  ncclComm_t part = nullptr;
  check(ncclCommSplit(from, color, key, &part, &config), title);
  settle(from, title);  // only then is `part` filled in
  if (!part) return part;
  comms_.push_back(part);
  settle(part, title);
  return part;
}

void NcclCalls::destroy(ncclComm_t comm, const Title& title) noexcept {
  if (std::ranges::find(comms_, comm) == comms_.end()) return;  // aborted
  try {
    require(std::uncaught_exceptions() == 0, "others will not come");
    check(ncclCommFinalize(comm), title);
    settle(comm, title);
    std::erase(comms_, comm);
    ncclCommDestroy(comm);
  } catch (const Error&) {
    if (std::erase(comms_, comm)) ncclCommAbort(comm);
  }
}

std::shared_ptr<NcclCalls::Started> NcclCalls::start(const Title& title, const std::vector<ncclComm_t>& comms,
                                                     const std::function<ncclResult_t()>& put) {
  require(dead_.empty(), dead_);
  cuda::Event(backend_.stream()).holds(stream_);
  const auto started = std::make_shared<Started>(title, stream_);
  check(ncclGroupStart(), title);
  const ncclResult_t each = put(), together = ncclGroupEnd();
  check(each, title);
  check(together, title);
  for (const ncclComm_t comm : comms) settle(comm, title);  // the stream has it only now
  started->done.emplace(stream_);
  pending_.push_back(started);
  look();
  return started;
}

bool NcclCalls::reached(const Started& started, Until until) {
  require(dead_.empty(), dead_);
  if (until == Until::Ordered) {
    started.done->holds(backend_.stream());
    return true;
  }
  look();
  return started.done->reached();
}

std::shared_ptr<NcclCalls::Messages> NcclCalls::add(ncclComm_t comm, const Call& message, const Title& title) {
  if (!messages_) messages_ = std::make_shared<Messages>(title);
  messages_->calls.emplace_back(comm, message);
  return messages_;
}

void NcclCalls::send_messages() {
  if (!messages_) return;
  const auto together = std::exchange(messages_, nullptr);
  std::vector<ncclComm_t> comms;
  for (const auto& [comm, call] : together->calls)
    if (std::ranges::find(comms, comm) == comms.end()) comms.push_back(comm);
  together->started = start(together->title, comms, [&] {
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < together->calls.size() && went_well(result); ++i) {
      const auto& [comm, call] = together->calls[i];
      const ncclDataType_t type = nccl_type(call.in.type);
      result = call.op == Op::Send ? ncclSend(call.in.data, call.in.count, type, call.peer, comm, stream_)
                                   : ncclRecv(call.out.data, call.out.count, type, call.peer, comm, stream_);
    }
    return result;
  });
}

bool NcclCalls::reached(const Messages& messages, Until until) {
  require(dead_.empty(), dead_);
  if (!messages.started) send_messages();
  require(messages.started != nullptr, messages.title.what, " on ", messages.title.group, " was not started");
  return reached(*messages.started, until);
}

void NcclCalls::look() {
  require(dead_.empty(), dead_);
  constexpr double kOften = 1e-3;  // seconds: it is called after every kernel, too
  if (seconds_now() - looked_ < kOften) return;
  looked_ = seconds_now();
  while (!pending_.empty() && pending_.front()->done->reached()) pending_.pop_front();
  for (const ncclComm_t comm : comms_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    const ncclResult_t found = asked == ncclSuccess ? state : asked;
    if (!went_well(found))
      give_up(found, pending_.empty() ? Title{"NCCL", "this rank", Site::current()} : pending_.front()->title);
  }
  if (pending_.empty() || *timeout_ <= 0) return;
  Started& first = *pending_.front();  // the others stand behind it
  if (first.ready.reached() && first.patience.waited() >= *timeout_) out_of_time(first.title);
}

void NcclCalls::check(ncclResult_t result, const Title& title) {
  if (!went_well(result)) give_up(result, title);
}

void NcclCalls::settle(ncclComm_t comm, const Title& title, const char* hint) {
  Patience patience;
  ncclResult_t state = ncclInProgress;
  while (true) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclInProgress) break;
    if (*timeout_ > 0 && patience.waited() >= *timeout_) out_of_time(title);
    sched_yield();
  }
  if (state != ncclSuccess) give_up(state, title, hint);
}

void NcclCalls::give_up(const std::string& why, Site at) {
  dead_ = why;
  for (const ncclComm_t comm : std::views::reverse(comms_)) ncclCommAbort(comm);
  comms_.clear();
  pending_.clear();
  try {
    cuda::Event(stream_).holds(backend_.stream());  // memory that goes back from now on is no longer in use
  } catch (const Error&) {  // the first word counts
  }
  throw Error(why, at);
}

void NcclCalls::give_up(ncclResult_t result, const Title& title, const char* hint) {
  const ncclComm_t any = comms_.empty() ? nullptr : comms_.front();
  give_up(cat(title.what, " on ", title.group, ": NCCL: ", words_of(result, any), hint), title.at);
}

void NcclCalls::out_of_time(const Title& title) {
  give_up(waited_in_vain(*timeout_, title.what, title.group), title.at);
}

}  // namespace course
