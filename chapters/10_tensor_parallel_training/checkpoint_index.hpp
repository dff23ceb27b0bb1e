// A checkpoint's index.json: which box of which tensor lies in which file, and the hash of each piece and of itself.
// It comes from a stranger's disk: nothing here trusts it, and nothing here needs MPI or the files it names.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/box.hpp"

namespace course {

constexpr int kCheckpointVersion = 2;  // 1 had no hash of the index itself

std::string hash_of_index(const nlohmann::json& index);  // of the index without its own "hash"

// The text of an index, without its "hash". Throws Error, one line that starts with `name` (the path), for what is no
// JSON, nests too deeply, is of another version, or does not have the hash that it says.
nlohmann::json parse_checkpoint_index(const std::string& text, const std::string& name);

struct PieceRef {
  Box box;
  Shape global;
  std::string file, key, hash;
};

// The pieces of each tensor. Throws Error, with `name`, for a piece that lacks a field, whose shapes do not fit
// together, that lies outside its tensor or over another piece of it, or whose file lies outside the folder.
std::map<std::string, std::vector<PieceRef>> pieces_by_tensor(const nlohmann::json& index, const std::string& name);

}  // namespace course
