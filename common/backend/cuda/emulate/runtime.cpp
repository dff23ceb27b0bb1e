#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "common/backend/cuda/emulate/block.hpp"
#include "common/backend/cuda/emulate/gpu.hpp"
#include "common/backend/cuda/emulate/symbols.hpp"
#include "common/backend/cuda/last_kernels.hpp"
#include "common/check.hpp"

using course::cat;
using course::emulate::Gpu;
using course::emulate::Piece;
using course::emulate::Touch;

namespace {

constexpr int runtime_version = 13000;

std::string word(const char* name) {
  const char* said = std::getenv(name);
  return said ? said : "";
}

int devices() {
  const std::string said = word("COURSE_EMULATE_DEVICES");
  return said.empty() ? 8 : std::atoi(said.c_str());
}

// A driver for CUDA 13.0; `old` and `none` are those of machines that cannot run us.
int driver() {
  const std::string said = word("COURSE_EMULATE_DRIVER");
  return said == "none" ? 0 : said == "old" ? 12020 : runtime_version;
}

cudaError_t done() { return Gpu::get().state(); }

}  // namespace

const char* cudaGetErrorString(cudaError_t code) { return Gpu::get().text(code); }
cudaError_t cudaGetLastError() { return Gpu::get().last(); }

// ---- devices ----
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (driver() < runtime_version) return cudaErrorInsufficientDriver;  // CUDA says the same where there is none
  *count = devices();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::istringstream said(word("COURSE_EMULATE_CAPABILITY"));
  std::string its;
  for (int i = 0; i <= device; ++i) std::getline(said, its, ',');
  *properties = {"emulated GPU", 9, 0};
  std::sscanf(its.c_str(), "%d.%d", &properties->major, &properties->minor);
  return done();
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices())
    return Gpu::get().failed(cudaErrorInvalidDevice, cat("device ", device, " of ", devices()));
  Gpu::get().device = device;
  return done();
}

cudaError_t cudaGetDevice(int* device) {
  *device = Gpu::get().device;
  return done();
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device < 0 || device >= devices())
    return Gpu::get().failed(cudaErrorInvalidDevice, cat("device ", device, " of ", devices()));
  std::snprintf(id, length, "0000:%02X:00.0", static_cast<unsigned>(device + 1) & 0xff);
  return done();
}

cudaError_t cudaDeviceReset() {
  Gpu::get().reset();
  return cudaSuccess;
}

// ---- streams and events ----
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{Gpu::get().streams++, {}, Gpu::get().new_queue()};
  return done();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Gpu::get().host.merge(stream->clock);  // its work ends before it does
  delete stream;
  return done();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const CUstream_st& own = *Gpu::get().stream(stream);
  while (!own.queue->open.empty()) {
    sched_yield();
    Gpu::get().advance();
  }
  Gpu::get().host.merge(own.clock);
  return done();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const CUstream_st& own = *Gpu::get().stream(stream);
  Gpu::get().advance();
  if (!own.queue->open.empty()) return cudaErrorNotReady;
  Gpu::get().host.merge(own.clock);
  return done();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Gpu::get().stream(stream)->clock.merge(event->clock);
  if (event->complete()) return done();
  return Gpu::get().later(stream, [recorded = *event] { return recorded.complete(); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return done();
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return done();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const CUstream_st& own = *Gpu::get().stream(stream);
  *event = {own.clock, own.queue, own.queue->put, std::chrono::steady_clock::now()};
  return done();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Gpu::get().advance();
  if (!event->complete()) return cudaErrorNotReady;
  Gpu::get().host.merge(event->clock);
  return done();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (!event->complete()) {
    sched_yield();
    Gpu::get().advance();
  }
  Gpu::get().host.merge(event->clock);
  return done();
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return done();
}

// ---- memory ----
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  Gpu& gpu = Gpu::get();
  *memory = nullptr;
  if (gpu.state() != cudaSuccess || bytes == 0) return gpu.state();
  gpu.watch_faults();
  Piece* piece = gpu.arena.allocate(bytes);
  if (!piece)
    return gpu.failed(cudaErrorMemoryAllocation, cat(bytes, " bytes, and ", gpu.arena.used(), " of ",
                                                     gpu.arena.size(), " are in use"));
  CUstream_st& own = *gpu.stream(stream);
  own.clock.merge(gpu.host);
  piece->written = own.clock.next(own.id, "cudaMallocAsync");
  *memory = piece->begin;
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  Gpu& gpu = Gpu::get();
  if (!memory) return done();
  Piece* piece = gpu.arena.find(memory);
  if (!piece || piece->begin != memory || piece->freed)
    return gpu.failed(cudaErrorInvalidValue, cat("cudaFreeAsync of an address ", gpu.arena.describe(memory)), true);
  course::emulate::Pieces pieces;
  gpu.order(stream, "cudaFreeAsync", {{memory, true}}, pieces);
  piece->freed = true;
  return gpu.later(stream, [&gpu, piece] {
    const std::string wrong = gpu.arena.release(piece);
    if (!wrong.empty() && gpu.state() == cudaSuccess) gpu.failed(cudaErrorIllegalAddress, wrong, true);
    return true;
  });
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*memory) return Gpu::get().failed(cudaErrorMemoryAllocation, cat(bytes, " bytes of the host"));
  Gpu::get().pinned_memory[static_cast<char*>(*memory)] = bytes;
  return done();
}

cudaError_t cudaFreeHost(void* memory) {
  Gpu::get().pinned_memory.erase(static_cast<char*>(memory));
  std::free(memory);
  return done();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Gpu& gpu = Gpu::get();
  if (gpu.state() != cudaSuccess || bytes == 0) return gpu.state();
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto side = [](bool device) { return device ? "the device" : "the host"; };
  if (gpu.arena.holds(to) != to_device || gpu.arena.holds(from) != from_device)
    return gpu.failed(cudaErrorInvalidMemcpyDirection,
                      cat("a copy said to go from ", side(from_device), " to ", side(to_device), " goes from ",
                          side(gpu.arena.holds(from)), " to ", side(gpu.arena.holds(to))));
  std::vector<Touch> touches;
  for (const auto& [at, device, writes] : {std::tuple{static_cast<const void*>(to), to_device, true},
                                           std::tuple{from, from_device, false}}) {
    if (!device) continue;
    const Piece* piece = gpu.arena.find(at);
    if (!piece || static_cast<const char*>(at) + bytes > piece->begin + piece->bytes)
      return gpu.failed(cudaErrorInvalidValue,
                        cat("a copy of ", bytes, " bytes begins ", gpu.arena.describe(at)));
    touches.push_back({at, writes});
  }
  return gpu.put(stream, "cudaMemcpyAsync", touches, [=] {
    std::memmove(to, from, bytes);
    return std::string();
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return done();
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return done(); }

// ---- kernels ----
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || value > static_cast<int>(course::emulate::shared_memory_bytes))
    return Gpu::get().failed(cudaErrorInvalidValue, cat(value, " bytes of shared memory; a block has at most ",
                                                        course::emulate::shared_memory_bytes));
  Gpu::get().shared_memory_most[kernel] = value;
  return done();
}

cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  static std::map<const void*, std::string> known;
  const auto [at, unknown] = known.try_emplace(kernel);
  if (unknown) at->second = course::emulate::linker_name(kernel);
  *name = at->second.c_str();
  return at->second.empty() ? cudaErrorInvalidValue : cudaSuccess;
}

namespace course::emulate {

void find_touches(const void* bytes, size_t size, std::vector<Touch>& touches) {
  const auto from = static_cast<const char*>(bytes);
  for (size_t i = 0; i + sizeof(void*) <= size; i += sizeof(void*)) {
    const void* word;
    std::memcpy(&word, from + i, sizeof word);
    if (Gpu::get().arena.holds(word)) touches.push_back({word, true});
  }
}

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   const std::vector<Touch>& touches, std::function<void()> thread) {
  Gpu& gpu = Gpu::get();
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads < 1 || threads > 1024 || block.z > 64 || grid.x < 1 || grid.x > 0x7fffffff || grid.y < 1 ||
      grid.y > 65535 || grid.z < 1 || grid.z > 65535)
    return gpu.failed(cudaErrorInvalidConfiguration, cat("(", grid.x, ",", grid.y, ",", grid.z, ") blocks of (",
                                                         block.x, ",", block.y, ",", block.z, ") threads"));
  const auto raised = gpu.shared_memory_most.find(kernel);
  const size_t most = raised == gpu.shared_memory_most.end() ? 48 << 10 : raised->second;
  if (shared_bytes > most)
    return gpu.failed(cudaErrorInvalidValue, cat(shared_bytes, " bytes of shared memory, and the kernel may take ",
                                                 most, "; cudaFuncSetAttribute raises it"));
  const bool late = word("COURSE_EMULATE_FAULTS") == "late" && gpu.state() == cudaSuccess;
  static int64_t started = 0;
  const bool asked = std::to_string(++started) == word("COURSE_EMULATE_FAULT_AT");
  const cudaError_t code =
      gpu.put(stream, cuda::name_of_kernel(kernel), touches, [=, thread = std::move(thread)]() mutable {
        const auto run = [](void* with) { (*static_cast<std::function<void()>*>(with))(); };
        return asked ? std::string("it fails, as asked") : run_grid(grid, block, shared_bytes, {run, &thread});
      });
  return late ? cudaSuccess : code;
}

}  // namespace course::emulate
