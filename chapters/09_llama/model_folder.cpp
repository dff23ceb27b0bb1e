#include "chapters/09_llama/model_folder.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/support/folder.hpp"
#include "common/support/write_aside.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;

void require_no_model(const std::string& dir) {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json"})
    require(!fs::exists(fs::path(dir) / name), "--save ", dir, ": holds a model already (", name,
            "); save elsewhere, or move that one away");
}

const std::string& prepared_folder(const TrainingOptions& options) {
  const std::string& dir = options.save;
  require_no_model(dir);
  const int64_t parameters = options.config().parameters();
  require_free("--save", dir, 4 * parameters, cat("a model of ", parameters, " parameters"));
  make_writable_folder("--save", dir);
  return dir;
}

void write_config(const LlamaConfig& config, const Tokenizer& tokenizer, const fs::path& path) {
  auto fields = nlohmann::ordered_json::parse(to_json(config));
  if (const auto id = tokenizer.bos()) fields["bos_token_id"] = *id;  // unsaid, Hugging Face takes 1 and 2
  if (const auto id = tokenizer.eos()) fields["eos_token_id"] = *id;
  if (const auto id = tokenizer.pad()) fields["pad_token_id"] = *id;
  write_aside(path, fields.dump(2) + "\n");
}

}  // namespace

ModelFolder::ModelFolder(const TrainingOptions& options) : dir_(prepared_folder(options)), lock_("--save", dir_) {
  require_no_model(dir_);  // of a run that ended meanwhile
}

void ModelFolder::save(Llama& llama, const TrainingData& data, std::ostream& out) const {
  const fs::path dir = dir_;
  data.tokenizer->save(dir / "tokenizer.json");
  save_weights(llama, (dir / "model.safetensors").string());
  write_config(llama.config(), *data.tokenizer, dir / "config.json");
  out << "saved: " << dir_ << " (config.json, model.safetensors, tokenizer.json)\n";
}

}  // namespace course
