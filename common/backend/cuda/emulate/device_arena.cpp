#include "common/backend/cuda/emulate/device_arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/check.hpp"

namespace course::emulate {
namespace {

constexpr size_t address_space = size_t{1} << 40;  // only addresses: nothing stands behind most of them
constexpr int filler = 0xff;

size_t bytes_of_card() {
  const char* said = std::getenv("COURSE_EMULATE_MEMORY");
  return (said ? std::strtoull(said, nullptr, 10) : 4096) << 20;
}

bool untouched(const char* from, const char* to) {
  return std::all_of(from, to, [](char c) { return c == static_cast<char>(filler); });
}

void* map_nothing(void* at, size_t bytes, int flags) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

}  // namespace

DeviceArena::DeviceArena()
    : size_(address_space), page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), card_(bytes_of_card()) {
  void* memory = map_nothing(nullptr, size_, 0);
  require(memory != MAP_FAILED, "the emulated GPU gets no address space of ", size_, " bytes");
  base_ = static_cast<char*>(memory);
}

DeviceArena::~DeviceArena() { munmap(base_, size_); }

Piece* DeviceArena::allocate(size_t bytes) {
  const size_t taken = (bytes + 255) / 256 * 256, page_bytes = (taken + page_ - 1) / page_ * page_;
  if (used_ + bytes > card_) return nullptr;
  if (next_ + page_bytes + page_ > size_) {
    next_ = 0;
    freed_.clear();
  }
  while (true) {  // after the first round through all addresses some are in use
    const auto after = pieces_.lower_bound(base_ + next_);
    if (after == pieces_.end() || after->first >= base_ + next_ + page_bytes + page_) break;
    next_ = after->first - base_ + after->second.page_bytes + page_;
  }
  char* pages = base_ + next_;
  next_ += page_bytes + page_;
  // With a flag that their neighbours have not, the pages stay an area of their own: to open and close it is half the work.
  madvise(pages, page_bytes, MADV_DONTDUMP);
  if (mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(pages, filler, page_bytes);
  used_ += bytes;
  Piece& piece = pieces_[pages];
  piece.begin = pages + page_bytes - taken;
  piece.bytes = bytes;
  piece.pages = pages;
  piece.page_bytes = page_bytes;
  close(piece);
  return &piece;
}

std::string DeviceArena::release(Piece* piece) {
  open(*piece, false);
  const bool before = untouched(piece->pages, piece->begin);
  const bool after = untouched(piece->begin + piece->bytes, piece->pages + piece->page_bytes);
  const std::string wrong = before && after ? ""
                                            : cat("somebody wrote ", before ? "past the end of " : "before the begin of ",
                                                  piece->bytes, " bytes");
  map_nothing(piece->pages, piece->page_bytes, MAP_FIXED);
  used_ -= piece->bytes;
  freed_[piece->pages] = {piece->begin, piece->bytes};
  if (freed_.size() > 100'000) freed_.erase(freed_.begin());
  pieces_.erase(piece->pages);
  return wrong;
}

Piece* DeviceArena::find(const void* address) {
  if (!holds(address)) return nullptr;
  char* const at = static_cast<char*>(const_cast<void*>(address));
  auto after = pieces_.upper_bound(at);
  if (after == pieces_.begin()) return nullptr;
  Piece& piece = std::prev(after)->second;
  return at <= piece.begin + piece.bytes ? &piece : nullptr;
}

std::string DeviceArena::describe(const void* address) const {
  const auto at = static_cast<const char*>(address);
  const auto alive = pieces_.upper_bound(const_cast<char*>(at));
  const Piece* piece = alive == pieces_.begin() ? nullptr : &std::prev(alive)->second;
  const auto dead = freed_.upper_bound(const_cast<char*>(at));
  const auto* gone = dead == freed_.begin() ? nullptr : &std::prev(dead)->second;
  if (gone && (!piece || gone->first > piece->begin)) return cat("in ", gone->second, " bytes that were freed");
  if (!piece) return "where nothing was allocated";
  if (at >= piece->begin + piece->bytes)
    return cat(at - (piece->begin + piece->bytes), " bytes past the end of ", piece->bytes, " bytes");
  if (piece->freed) return cat("in ", piece->bytes, " bytes that were freed");
  if (at < piece->begin) return cat(piece->begin - at, " bytes before ", piece->bytes, " bytes");
  return cat(at - piece->begin, " bytes into ", piece->bytes, " bytes");
}

void DeviceArena::open(const Piece& piece, bool writes) const {
  mprotect(piece.pages, piece.page_bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ);
}

void DeviceArena::close(const Piece& piece) const { mprotect(piece.pages, piece.page_bytes, PROT_NONE); }

}  // namespace course::emulate
