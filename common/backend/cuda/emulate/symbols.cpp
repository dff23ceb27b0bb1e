#include "common/backend/cuda/emulate/symbols.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <vector>

namespace course::emulate {
namespace {

template <typename T>
std::vector<T> read(std::ifstream& file, uint64_t at, uint64_t count) {
  std::vector<T> all(count);
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return file ? all : std::vector<T>();
}

// Of what begins at `value` in the file's own addresses.
std::string name_in(const char* path, uint64_t value) {
  std::ifstream file(path, std::ios::binary);
  const auto header = read<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return "";
  const auto sections = read<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  for (const auto& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    for (const auto& symbol : read<ElfW(Sym)>(file, table.sh_offset, table.sh_size / sizeof(ElfW(Sym)))) {
      if (symbol.st_value != value || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      const auto names = read<char>(file, sections[table.sh_link].sh_offset, sections[table.sh_link].sh_size);
      return symbol.st_name < names.size() ? names.data() + symbol.st_name : "";
    }
  }
  return "";
}

}  // namespace

std::string linker_name(const void* function) {
  Dl_info info{};
  void* found = nullptr;
  if (!dladdr1(function, &info, &found, RTLD_DL_LINKMAP)) return "";
  const auto* const map = static_cast<const link_map*>(found);
  const char* path = *map->l_name ? map->l_name : "/proc/self/exe";
  return name_in(path, reinterpret_cast<uint64_t>(function) - map->l_addr);
}

}  // namespace course::emulate
