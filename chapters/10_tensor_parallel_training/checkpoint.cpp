#include "chapters/10_tensor_parallel_training/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"
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

json read_index(const std::string& folder, Comm& world) {
  const fs::path path = fs::path(folder) / "index.json";
  std::string text;
  together(world, [&] {
    if (world.rank() == 0) text = parse_checkpoint_index(read_text(path), path.string()).dump();
  });
  return json::parse(world.broadcast_text(std::move(text), 0));
}

}  // namespace

std::string save_checkpoint(const std::string& dir, int64_t step, const std::vector<CheckpointTensor>& tensors,
                            const json& state, Comm& world, Backend& backend) {
  const std::string name = cat("step-", zero_padded(step, 8));
  const auto aside = [&](const char* what) { return fs::path(dir) / cat(".", name, what); };
  const fs::path complete = fs::path(dir) / name, writing = aside(".writing"), replaced = aside(".replaced");
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
    if (fs::exists(complete)) fs::rename(complete, replaced);  // whole, at any moment
    fs::rename(writing, complete);
    sync_path(dir);
    fs::remove_all(replaced);
  });
  return complete.string();
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
      std::vector<float> part(numel(tensor.box.size));
      int64_t covered = 0;
      for (const auto& piece : found->second) {
        require(piece.global == tensor.global, folder, ": ", tensor.name, " has shape ", show(piece.global), " there, ",
                show(tensor.global), " in this model");
        const auto both = intersect(piece.box, tensor.box);
        if (!both) continue;
        const std::string path = (fs::path(folder) / piece.file).string();
        const SafetensorsFile& file = files.try_emplace(piece.file, path).first->second;
        const auto bytes = file.bytes(piece.key);
        require(file.info(piece.key).type == StoredType::F32, path, ": ", piece.key, " is not f32");
        require(file.info(piece.key).shape == piece.box.size, path, ": ", piece.key, " has shape ",
                show(file.info(piece.key).shape), ", the index says ", show(piece.box.size));
        require(hash_of(bytes) == piece.hash, path, ": ", piece.key, " is damaged: its hash is ", hash_of(bytes),
                ", the index says ", piece.hash);
        copy_shared(piece.box, bytes.data(), tensor.box, part.data(), sizeof(float));
        covered += numel(both->size);
      }
      require(covered == static_cast<int64_t>(part.size()), folder, ": holds ", covered, " of the ", part.size(),
              " elements ", show(tensor.box), " of ", tensor.name);
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
    if (world.rank() != 0 || !fs::is_directory(dir)) return;
    for (const auto& entry : fs::directory_iterator(dir)) {
      const std::string name = entry.path().filename().string();
      if (is_step_name(name) && fs::exists(entry.path() / "index.json") && name > fs::path(newest).filename().string())
        newest = entry.path().string();
    }
  });
  newest = world.broadcast_text(newest, 0);
  return newest.empty() ? std::nullopt : std::optional(newest);
}

std::string find_checkpoint(const std::string& path, Comm& world) {
  std::string folder;
  together(world, [&] {
    if (world.rank() != 0) return;
    require(fs::exists(path), "--resume ", path, ": no such folder");
    if (fs::exists(fs::path(path) / "index.json")) folder = path;
  });
  folder = world.broadcast_text(folder, 0);
  if (!folder.empty()) return folder;
  const auto newest = newest_checkpoint(path, world);
  require_shared(newest, "--resume ", path,
                 ": holds no complete checkpoint (a folder step-NNNNNNNN with an index.json)");
  return *newest;
}

}  // namespace course
