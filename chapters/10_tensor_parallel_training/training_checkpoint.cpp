#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "chapters/09_llama/non_finite.hpp"
#include "common/support/folder.hpp"
#include "common/support/session.hpp"
#include "common/support/table.hpp"

namespace course {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Whether the checkpoint `folder` lies in `dir`. Rank 0 looks.
bool lies_in(const std::string& folder, const std::string& dir, Comm& world) {
  bool lies = false;
  together(world, [&] {
    if (world.rank() == 0) lies = fs::equivalent(fs::weakly_canonical(folder).parent_path(), dir);
  });
  return world.max(lies ? 1 : 0) > 0;
}

// Of a checkpoint's values, f32: each weight and its two moments. Its index is small beside them.
int64_t bytes_of_checkpoint(const TrainingOptions& options) { return 12 * options.config().parameters(); }

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(const TrainingOptions& options, AdamW& optimizer, const DeviceMesh& mesh,
                                         Comm& world, const DataSource& source)
    : options_(&options), optimizer_(&optimizer), mesh_(mesh), world_(&world), source_(source) {
  if (options.save.empty()) return;
  hold_folder();
  if (const auto other = newest_checkpoint(options.save, world)) {
    const bool goes_on =
        !options.resume.empty() && lies_in(find_checkpoint(options.resume, world), options.save, world);
    require_shared(goes_on, "--save ", options.save, ": holds another run's checkpoints (", *other,
                   "); go on with them by --resume, or save elsewhere");
  }
}

void TrainingCheckpoints::hold_folder() {
  const std::string& dir = options_->save;
  together(*world_, [&] {
    if (world_->rank() != 0) return;
    make_writable_folder("--save", dir);
    lock_ = std::make_unique<FolderLock>("--save", dir);
    tidy_checkpoints(dir);
  });
  const std::string mine = read_lock(dir), first = world_->broadcast_text(mine, 0);
  together(*world_, [&] {
    require(mine == first, "--save ", dir, ": is another folder here than on rank 0; all ranks need the same");
  });
}

std::vector<CheckpointTensor> TrainingCheckpoints::tensors() const {
  std::vector<CheckpointTensor> all;
  const Parameters& parameters = optimizer_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Parameter& p = *parameters[i];
    const bool speaks = p.speaks_for(mesh_);
    all.push_back({p.name(), p.global(), p.owned_box(), &p.owned_to_write(), speaks});
    all.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer_->mean(i), speaks});
    all.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer_->square(i), speaks});
  }
  return all;
}

json TrainingCheckpoints::state() const {
  const TrainingOptions& o = *options_;
  json state = {{"step", optimizer_->steps()},
                {"next_batch", optimizer_->steps()},
                {"seed", o.seed},
                {"sampling_seed", o.sampling.seed},
                {"steps", o.steps},
                {"warmup", o.warmup},
                {"lr", o.lr},
                {"batch", o.batch},
                {"seq", o.seq},
                {"samples", o.samples},
                {"model", json::parse(to_json(o.config()))},
                {"mesh", mesh_.show()}};
  if (!source_.text_hash.empty()) {
    state["text"] = {{"name", source_.text}, {"hash", source_.text_hash}};
    state["tokenizer"] = {{"name", source_.tokenizer}, {"hash", source_.tokenizer_hash}};
  }
  return state;
}

void TrainingCheckpoints::resume() {
  if (!options_->resume.empty()) load();
  note_room();
}

void TrainingCheckpoints::load() {
  const std::string folder = find_checkpoint(options_->resume, *world_);
  const json saved = read_checkpoint_state(folder, *world_), now = state();
  for (const char* key : {"model", "batch", "seq", "samples"}) {
    require_shared(saved.contains(key), folder, ": is no checkpoint of a training: its state has no ", key);
    require_shared(saved[key] == now[key], folder, ": was trained with ", key, " ", saved[key].dump(),
                   ", this run has ", now[key].dump());
  }
  compare_source(folder, saved);
  load_checkpoint(folder, tensors(), *world_, mesh_.backend());
  optimizer_->resume_at(saved.at("step"));
}

void TrainingCheckpoints::compare_source(const std::string& folder, const json& saved) const {
  if (source_.text_hash.empty() || !saved.contains("text") || !saved.contains("tokenizer")) return;
  const std::string tokenizer = saved["tokenizer"].at("name"), text = saved["text"].at("name");
  const std::string tokenizer_hash = saved["tokenizer"].at("hash"), text_hash = saved["text"].at("hash");
  require_shared(tokenizer_hash == source_.tokenizer_hash, folder, ": was trained with the tokenizer ", tokenizer, " (",
                 tokenizer_hash, "), this run has ", source_.tokenizer, " (", source_.tokenizer_hash,
                 "): its ids mean other text; give --tokenizer ", tokenizer);
  const bool only_generates = saved.at("step").get<int64_t>() >= options_->last_step();
  require_shared(text_hash == source_.text_hash || only_generates || options_->other_text, folder,
                 ": was trained on the text ", text, " (", text_hash, "), this run reads ", source_.text, " (",
                 source_.text_hash, "); give the same --text, or train on with this one by --allow-other-text");
}

void TrainingCheckpoints::note_room() const {
  const TrainingOptions& o = *options_;
  const int64_t start = optimizer_->steps(), last = o.last_step();
  if (o.save.empty() || world_->rank() != 0 || start >= last) return;
  const int64_t every = o.save_every > 0 ? o.save_every : last, bytes = bytes_of_checkpoint(o);
  const int64_t count = last / every - start / every + (last % every > 0 ? 1 : 0), free = free_bytes(o.save);
  if (static_cast<double>(count) * static_cast<double>(bytes) > static_cast<double>(free))
    std::cerr << cat("note: --save ", o.save, ": ", count, " checkpoints of ", human_bytes(bytes), " are to come, ",
                     human_bytes(free), " free have room for ", free / bytes, "\n");
}

void TrainingCheckpoints::after_step(int64_t step, bool stopping) {
  const TrainingOptions& o = *options_;
  if (o.save.empty()) return;
  if (!stopping && step != o.last_step() && (o.save_every == 0 || step % o.save_every != 0)) return;
  const auto all = tensors();
  together(*world_, [&] {
    for (const CheckpointTensor& t : all) {
      const std::string bad = bad_value(mesh_.backend(), *t.part, t.box, t.global);
      require(bad.empty(), "step ", step, ": ", t.name, " has a value that is not finite, ", bad,
              "; it is not saved, the checkpoints before it stay");
    }
  });
  save_checkpoint(o.save, step, all, state(), *world_, mesh_.backend());
}

void require_room_to_save(const TrainingOptions& options, Comm& world) {
  if (options.save.empty()) return;
  together(world, [&] {
    if (world.rank() != 0) return;
    require_free("--save", options.save, bytes_of_checkpoint(options),
                 cat("a checkpoint of ", options.config().parameters(), " parameters"));
  });
}

void take_schedule_from_checkpoint(TrainingOptions& options, const Cli& cli, Comm& world) {
  if (options.resume.empty()) return;
  options.resume = find_checkpoint(options.resume, world);  // the one that is resumed, whatever becomes of the folder
  const json saved = read_checkpoint_state(options.resume, world);
  const auto take = [&](const char* flag, const char* key, auto& value) {
    if (!cli.given(flag) && saved.contains(key)) value = saved[key].get<std::decay_t<decltype(value)>>();
  };
  take("--steps", "steps", options.steps);
  take("--warmup", "warmup", options.warmup);
  take("--lr", "lr", options.lr);
}

}  // namespace course
