// The memory of an emulated GPU: addresses of its own, which the host may not touch and a kernel only where an argument
// points. Each piece ends at the end of a page, and the page after it belongs to nobody; freed addresses are not given out
// again for a long time. So the processor's own protection finds a host access, a read past the end, a use after free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/backend/cuda/emulate/streams.hpp"

namespace course::emulate {

struct Piece {
  char* begin = nullptr;  // 256-byte aligned, as cudaMalloc's
  size_t bytes = 0;
  char* pages = nullptr;
  size_t page_bytes = 0;
  bool freed = false;          // in the order of a stream, which has not come so far
  Stamp written;               // last
  std::vector<Stamp> read;     // the last of each stream, since it was written
};

class DeviceArena {
 public:
  DeviceArena();
  ~DeviceArena();

  Piece* allocate(size_t bytes);  // filled with NaNs; null where the card is full
  // "" or that somebody wrote into the bytes around it. The piece is gone.
  std::string release(Piece* piece);
  Piece* find(const void* address);  // the piece it lies in, one past its end too; null where there is none
  bool holds(const void* address) const {
    return address >= base_ && address < base_ + size_;
  }
  // Says what lies at an address that nobody may touch: "17 bytes past the end of 1,024 bytes".
  std::string describe(const void* address) const;

  void open(const Piece& piece, bool writes) const;
  void close(const Piece& piece) const;
  size_t used() const { return used_; }
  size_t size() const { return card_; }  // of the card: COURSE_EMULATE_MEMORY, in MiB, or 4 GiB

 private:
  char* base_;
  size_t size_, next_ = 0, used_ = 0, page_, card_;
  std::map<char*, Piece> pieces_;                          // by where their pages begin
  std::map<char*, std::pair<char*, size_t>> freed_;        // pages: begin and bytes of what was there
};

}  // namespace course::emulate
