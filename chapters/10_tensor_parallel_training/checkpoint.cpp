#include "chapters/10_tensor_parallel_training/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint_pieces.hpp"
#include "common/support/hash.hpp"
#include "common/support/safetensors.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string zero_padded(int64_t n, size_t digits) {
  const std::string text = std::to_string(n);
  return std::string(digits > text.size() ? digits - text.size() : 0, '0') + text;
}

// "step-00000008", and nothing that only begins so.
bool is_step_name(const std::string& name) {
  return name.size() == 13 && name.starts_with("step-") && name.find_first_not_of("0123456789", 5) == std::string::npos;
}

void sync_path(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY);
  require(file >= 0, path.string(), ": cannot be opened to sync it: ", std::strerror(errno));
  const int failed = fsync(file);
  close(file);
  require(failed == 0, path.string(), ": cannot be synced: ", std::strerror(errno));
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(out, path.string(), ": cannot be written: ", std::strerror(errno));
  sync_path(path);
}

// Writes this rank's pieces and returns what the index says of them.
json write_pieces(const fs::path& folder, int rank, const std::vector<CheckpointTensor>& tensors,
                  const Backend& backend) {
  const std::string file = cat("rank-", zero_padded(rank, 4), ".safetensors");
  json pieces = json::array();
  std::vector<std::vector<float>> values;
  std::vector<TensorBytes> stored;
  for (const auto& tensor : tensors) {
    if (!tensor.speaks || tensor.part->numel() == 0) continue;
    values.push_back(backend.to_host(*tensor.part));
    const std::string key = cat(tensor.name, "@", show(tensor.box));
    stored.push_back({key, StoredType::F32, tensor.box.size, as_bytes_of(values.back())});
    pieces.push_back({{"tensor", tensor.name},
                      {"file", file},
                      {"key", key},
                      {"global", tensor.global},
                      {"offset", tensor.box.offset},
                      {"size", tensor.box.size},
                      {"dtype", name_of(tensor.part->dtype())},
                      {"hash", hash_of(stored.back().bytes)}});
  }
  write_safetensors(folder / file, stored);
  return pieces;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  require(in, path.string(), ": cannot be read: ", std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path aside_of(const fs::path& complete, const char* what) {
  return complete.parent_path() / cat(".", complete.filename().string(), what);
}

// Where a checkpoint lies: under its name, or aside, whole, where its run was killed before its successor had the name.
fs::path place_of(const fs::path& complete) {
  const fs::path replaced = aside_of(complete, ".replaced");
  return !fs::exists(complete) && fs::exists(replaced) ? replaced : complete;
}

json read_index(const std::string& folder, Comm& world) {
  const fs::path path = place_of(folder) / "index.json";
  std::string text;
  together(world, [&] {
    if (world.rank() == 0) text = parse_checkpoint_index(read_text(path), path.string()).dump();
  });
  return json::parse(world.broadcast_text(std::move(text), 0));
}

// `written` gets the name `complete`. A folder that has it already trades places with it where the file system can do
// that in one step; else the old one is `replaced`, whole, until the new one has its name. On failure the old one has it.
void put_in_place(const fs::path& written, const fs::path& complete, const fs::path& replaced) {
  if (!fs::exists(complete)) return fs::rename(written, complete);
  if (renameat2(AT_FDCWD, written.c_str(), AT_FDCWD, complete.c_str(), RENAME_EXCHANGE) == 0) return;
  fs::rename(complete, replaced);
  std::error_code error;
  fs::rename(written, complete, error);
  if (!error) return;
  fs::rename(replaced, complete);
  fail(cat(complete.string(), ": cannot take this name: ", error.message()));
}

bool is_complete(const fs::path& folder) {
  return is_step_name(folder.filename().string()) && fs::exists(place_of(folder) / "index.json");
}

// ".step-00000008.writing" in two: "step-00000008", ".writing". Nothing where the name is another's.
std::optional<std::pair<std::string, std::string>> aside_name(const std::string& name) {
  if (!name.starts_with(".") || !is_step_name(name.substr(1, 13))) return std::nullopt;
  return std::pair(name.substr(1, 13), name.substr(14));
}

// The newest complete checkpoint in dir, as this rank sees it, by the name that is its own wherever it lies; "" for none.
std::string newest_here(const std::string& dir) {
  fs::path newest;
  if (!fs::is_directory(dir)) return "";
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto aside = aside_name(entry.path().filename().string());
    const fs::path folder = aside ? fs::path(dir) / aside->first : entry.path();
    if (is_complete(folder) && folder.filename() > newest.filename()) newest = folder;
  }
  return newest.string();
}

// A checkpoint in words that differ where it does.
std::string seen(const std::string& folder) {
  if (folder.empty()) return "no complete checkpoint";
  const std::string text = read_text(place_of(folder) / "index.json");
  return cat(fs::weakly_canonical(folder).filename().string(), " (index ", hash_of(std::as_bytes(std::span(text))), ")");
}

}  // namespace

std::string save_checkpoint(const std::string& dir, int64_t step, const std::vector<CheckpointTensor>& tensors,
                            const json& state, Comm& world, Backend& backend) {
  const fs::path complete = fs::path(dir) / cat("step-", zero_padded(step, 8));
  const fs::path writing = aside_of(complete, ".writing"), replaced = aside_of(complete, ".replaced");
  std::error_code ignored;
  try {
    together(world, [&] {
      if (world.rank() != 0) return;
      fs::remove_all(writing);
      fs::remove_all(replaced);
      fs::create_directories(writing);
    });
    json pieces;
    together(world, [&] { pieces = write_pieces(writing, world.rank(), tensors, backend); });
    const auto all = world.all_gather_text(pieces.dump());
    together(world, [&] {
      if (world.rank() != 0) return;
      json index = {{"version", kCheckpointVersion},
                    {"step", step},
                    {"ranks", world.size()},
                    {"state", state},
                    {"pieces", json::array()}};
      for (const auto& text : all)
        for (auto& piece : json::parse(text)) index["pieces"].push_back(std::move(piece));
      index["hash"] = hash_of_index(index);
      write_text(writing / "index.json", index.dump(1));
      sync_path(writing);
      put_in_place(writing, complete, replaced);
      sync_path(dir);
      fs::remove_all(writing, ignored);  // it is saved: what was there before may stay until the next run tidies
      fs::remove_all(replaced, ignored);
    });
  } catch (const SharedError& error) {
    if (world.rank() == 0) fs::remove_all(writing, ignored);  // a full disk keeps no half of it
    throw SharedError(cat(complete.string(), " is not saved: ", error.what(), "; those before it stay"));
  }
  return complete.string();
}

void tidy_checkpoints(const std::string& dir) {
  std::vector<fs::path> asides;
  for (const auto& entry : fs::directory_iterator(dir)) asides.push_back(entry.path());
  for (const fs::path& aside : asides) {
    const auto name = aside_name(aside.filename().string());
    if (!name) continue;
    const auto& [step, what] = *name;
    const fs::path complete = aside.parent_path() / step;
    if (what == ".replaced" && !fs::exists(complete))
      fs::rename(aside, complete);
    else if (what == ".replaced" || what == ".writing")
      fs::remove_all(aside);
  }
}

json load_checkpoint(const std::string& folder, const std::vector<CheckpointTensor>& tensors, Comm& world,
                     Backend& backend) {
  const json index = read_index(folder, world);
  together(world, [&] {
    const auto pieces = pieces_by_tensor(index, folder + "/index.json");
    std::map<std::string, SafetensorsFile> files;
    for (const auto& tensor : tensors) {
      const auto found = pieces.find(tensor.name);
      require(found != pieces.end(), folder, ": has no tensor ", tensor.name);
      const std::vector<float> part = read_part(place_of(folder).string(), tensor, found->second, files);
      const MemoryScope scope(tensor.part->memory_class());
      *tensor.part = backend.from_host(part, tensor.box.size);
    }
  });
  return index.at("state");
}

json read_checkpoint_state(const std::string& folder, Comm& world) { return read_index(folder, world).at("state"); }

std::optional<std::string> newest_checkpoint(const std::string& dir, Comm& world) {
  std::string newest;
  together(world, [&] {
    if (world.rank() == 0) newest = newest_here(dir);
  });
  newest = world.broadcast_text(newest, 0);
  return newest.empty() ? std::nullopt : std::optional(newest);
}

std::string find_checkpoint(const std::string& path, Comm& world) {
  std::string folder, what;
  together(world, [&] {
    require(world.rank() != 0 || fs::exists(place_of(path)), "--resume ", path, ": no such folder");
    folder = fs::exists(place_of(path) / "index.json") ? path : newest_here(path);
    require(world.rank() != 0 || !folder.empty(), "--resume ", path,
            ": holds no complete checkpoint (a folder step-NNNNNNNN with an index.json)");
    what = seen(folder);
  });
  const auto all = world.all_gather_text(what);
  for (int r = 1; r < world.size(); ++r)
    require_shared(all[r] == all[0], "--resume ", path, ": rank 0 finds ", all[0], " there, rank ", r, " finds ", all[r],
                   "; all ranks need the same folder");
  return folder;
}

}  // namespace course
