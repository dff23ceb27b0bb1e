#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/support/folder.hpp"
#include "common/support/session.hpp"

namespace course {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Whether the checkpoint `folder` lies in `dir`. Rank 0 looks.
bool lies_in(const std::string& folder, const std::string& dir, Comm& world) {
  bool lies = false;
  together(world, [&] {
    if (world.rank() == 0) lies = fs::equivalent(fs::canonical(folder).parent_path(), dir);
  });
  return world.max(lies ? 1 : 0) > 0;
}

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(const TrainingOptions& options, AdamW& optimizer, const DeviceMesh& mesh,
                                         Comm& world)
    : options_(&options), optimizer_(&optimizer), mesh_(mesh), world_(&world) {
  if (options.save.empty()) return;
  if (const auto other = newest_checkpoint(options.save, world)) {
    const bool goes_on =
        !options.resume.empty() && lies_in(find_checkpoint(options.resume, world), options.save, world);
    require_shared(goes_on, "--save ", options.save, ": holds another run's checkpoints (", *other,
                   "); go on with them by --resume, or save elsewhere");
  }
  together(world, [&] {
    if (world.rank() == 0) make_writable_folder("--save", options.save);
  });
}

std::vector<CheckpointTensor> TrainingCheckpoints::tensors() const {
  std::vector<CheckpointTensor> all;
  const Parameters& parameters = optimizer_->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Parameter& p = *parameters[i];
    const bool speaks = p.speaks_for(mesh_);
    all.push_back({p.name(), p.global(), p.owned_box(), &p.owned(), speaks});
    all.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer_->mean(i), speaks});
    all.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer_->square(i), speaks});
  }
  return all;
}

json TrainingCheckpoints::state() const {
  const TrainingOptions& o = *options_;
  return {{"step", optimizer_->steps()},
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
}

void TrainingCheckpoints::resume() {
  if (options_->resume.empty()) return;
  const std::string folder = find_checkpoint(options_->resume, *world_);
  const json saved = read_checkpoint_state(folder, *world_), now = state();
  for (const char* key : {"model", "batch", "seq", "samples"}) {
    require_shared(saved.contains(key), folder, ": is no checkpoint of a training: its state has no ", key);
    require_shared(saved[key] == now[key], folder, ": was trained with ", key, " ", saved[key].dump(),
                   ", this run has ", now[key].dump());
  }
  load_checkpoint(folder, tensors(), *world_, mesh_.backend());
  optimizer_->resume_at(saved.at("step"));
}

void TrainingCheckpoints::after_step(int64_t step) {
  const TrainingOptions& o = *options_;
  if (o.save.empty()) return;
  if (step == o.last_step() || (o.save_every > 0 && step % o.save_every == 0))
    save_checkpoint(o.save, step, tensors(), state(), *world_, mesh_.backend());
}

void take_schedule_from_checkpoint(TrainingOptions& options, const Cli& cli, Comm& world) {
  if (options.resume.empty()) return;
  const json saved = read_checkpoint_state(find_checkpoint(options.resume, world), world);
  const auto take = [&](const char* flag, const char* key, auto& value) {
    if (!cli.given(flag) && saved.contains(key)) value = saved[key].get<std::decay_t<decltype(value)>>();
  };
  take("--steps", "steps", options.steps);
  take("--warmup", "warmup", options.warmup);
  take("--lr", "lr", options.lr);
}

}  // namespace course
