#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"

#include <nlohmann/json.hpp>

#include "common/support/hash.hpp"
#include "common/support/shallow_json.hpp"

namespace course {
namespace {

using nlohmann::json;

// A list of sizes: whole numbers from 0 to 2^63 - 1, of which a library's get() would make others in silence.
Shape sizes(const json& piece, const char* key) {
  const json& list = piece.at(key);
  require(list.is_array(), key, " is ", list.type_name(), ", not a list");
  Shape out;
  for (const json& n : list) {
    require(n.is_number_unsigned() && n.get<uint64_t>() <= INT64_MAX, key,
            " holds what is no size: ", n.is_number() ? n.dump() : n.type_name());
    out.push_back(n.get<int64_t>());
  }
  return out;
}

PieceRef piece_ref(const json& piece) {
  PieceRef ref{{sizes(piece, "offset"), sizes(piece, "size")},
               sizes(piece, "global"),
               piece.at("file"),
               piece.at("key"),
               piece.at("hash")};
  const auto& [offset, size] = ref.box;
  require(offset.size() == ref.global.size() && size.size() == ref.global.size(), "a piece of ",
          piece.at("tensor").dump(), " has offset, size and global shape of different lengths");
  for (size_t d = 0; d < offset.size(); ++d)
    require(offset[d] <= ref.global[d] && size[d] <= ref.global[d] - offset[d], "a piece of ",
            piece.at("tensor").dump(), " lies outside its tensor: offset ", offset[d], ", size ", size[d], " of ",
            ref.global[d]);
  require(ref.file.find('/') == std::string::npos, "names a file outside its folder: ", piece.at("file").dump());
  return ref;
}

}  // namespace

std::string hash_of_index(const json& index) {
  const std::string text = index.dump();
  return hash_of(std::as_bytes(std::span(text)));
}

json parse_checkpoint_index(const std::string& text, const std::string& name) {
  json index;
  std::string hash;
  try {
    index = parse_shallow_json(text);
    require(index.at("version") == kCheckpointVersion, "version ", index.at("version").dump(), ", this program reads ",
            kCheckpointVersion);
    require(index.at("pieces").is_array() && index.at("state").is_object(), "is no checkpoint's index");
    hash = index.at("hash");
    index.erase("hash");
  } catch (const json::exception& error) {
    fail(cat(name, ": is no checkpoint's index: ", error.what()));
  } catch (const Error& error) {
    fail(cat(name, ": ", error.what()));
  }
  const std::string is = hash_of_index(index);
  require(is == hash, name, " is damaged: its hash is ", is, ", it says ", hash);
  return index;
}

std::map<std::string, std::vector<PieceRef>> pieces_by_tensor(const json& index, const std::string& name) {
  std::map<std::string, std::vector<PieceRef>> pieces;
  try {
    for (const auto& piece : index.at("pieces")) {
      const std::string tensor = piece.at("tensor");
      const PieceRef ref = piece_ref(piece);
      for (const PieceRef& other : pieces[tensor])
        require(!intersect(other.box, ref.box), "two pieces of ", tensor, " overlap: ", show(other.box), " and ", show(ref.box));
      pieces[tensor].push_back(ref);
    }
  } catch (const json::exception& error) {
    fail(cat(name, ": is no checkpoint's index: ", error.what()));
  } catch (const Error& error) {
    fail(cat(name, ": ", error.what()));
  }
  return pieces;
}

}  // namespace course
