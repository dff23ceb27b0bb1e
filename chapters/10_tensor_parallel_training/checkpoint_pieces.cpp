#include "chapters/10_tensor_parallel_training/checkpoint_pieces.hpp"

#include <cstring>

#include "common/support/hash.hpp"

namespace course {

std::vector<float> read_part(const std::string& folder, const CheckpointTensor& tensor, const std::vector<PieceRef>& pieces,
                             std::map<std::string, SafetensorsFile>& files) {
  std::vector<float> part(numel(tensor.box.size));
  int64_t covered = 0;
  for (const auto& piece : pieces) {
    require(piece.global == tensor.global, folder, ": ", tensor.name, " has shape ", show(piece.global), " there, ",
            show(tensor.global), " in this model");
    // exercise resume {
    const auto both = intersect(piece.box, tensor.box);
    if (!both) continue;
    const std::string path = cat(folder, "/", piece.file);
    const SafetensorsFile& file = files.try_emplace(piece.file, path).first->second;
    const auto bytes = file.bytes(piece.key);
    require(file.info(piece.key).type == StoredType::F32, path, ": ", piece.key, " is not f32");
    require(file.info(piece.key).shape == piece.box.size, path, ": ", piece.key, " has shape ",
            show(file.info(piece.key).shape), ", the index says ", show(piece.box.size));
    const std::string hash = hash_of(bytes);
    require(hash == piece.hash, path, ": ", piece.key, " is damaged: its hash is ", hash, ", the index says ",
            piece.hash);
    copy_shared(piece.box, bytes.data(), tensor.box, part.data(), sizeof(float));
    covered += numel(both->size);
    // } exercise
  }
  require(covered == static_cast<int64_t>(part.size()), folder, ": holds ", covered, " of the ", part.size(),
          " elements ", show(tensor.box), " of ", tensor.name);
  return part;
}

}  // namespace course

// Exercise 10 resume
// Task: One piece of a tensor, as a run of any number of ranks has saved it, goes into the part that this rank wants:
// read_part, for one `piece`. Put what both boxes hold into `part`, and count it in `covered`. A file is opened once
// (`files`) and only where something of it is wanted. Refuse a piece that is not f32, whose shape is not that of its
// box, or whose hash is not the one written down. You need common/box.hpp and common/support/safetensors.hpp.
// Hint: intersect(a, b) is the box that two boxes share, or nothing; both count in the whole tensor.
// Hint: copy_shared(from_box, from, to_box, to, bytes of an element) finds the shared elements in both: each lies
// elsewhere in its box.
// Hint: file.bytes(piece.key), file.info(piece.key) with type and shape, hash_of(bytes).
// Why: Pieces say which box of the whole tensor they are, and not which rank made them. So what was saved on any mesh
// is read on any other: each rank takes what lies in its own box, wherever it finds it.
// Wrong one_file_only: One file is read. Another mesh has cut the tensor elsewhere, so what this rank wants may lie in
// several: look at every piece that shares something.
//   - if (!both) continue;
//   + if (!both || (!files.empty() && !files.contains(piece.file))) continue;
// Wrong same_box_only: Only a piece with the very same box is read, so the mesh must be the one that saved. Take what
// the boxes share.
//   - if (!both) continue;
//   + if (!both || piece.box != tensor.box) continue;
// Wrong one_behind_the_other: Pieces are copied one behind the other. That is right for rows; columns of a piece lie
// apart in the part.
//   - copy_shared(piece.box, bytes.data(), tensor.box, part.data(), sizeof(float));
//   + std::memcpy(part.data() + covered, bytes.data(), numel(both->size) * sizeof(float));
// Wrong counts_the_piece: All of the piece is counted, though only a part of it is wanted here: a missing piece would
// then go unseen, and a whole part looks too large.
//   - covered += numel(both->size);
//   + covered += numel(piece.box.size);
// Wrong hash_not_compared: A damaged file is loaded in silence. The index holds the hash of every piece: compare it
// before anything is used.
//   - require(hash == piece.hash, path, ": ", piece.key, " is damaged: its hash is ", hash, ", the index says ",
//   -         piece.hash);
