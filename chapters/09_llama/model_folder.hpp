// --save DIR of chapter 09: a trained model as the folder that Hugging Face's names fit.
//
//   DIR/    tokenizer.json  model.safetensors  config.json    each written aside and renamed, config.json last
//
// So a folder with a config.json has all of a model in it. A model that is there already is never written over.
#pragma once

#include <ostream>

#include "chapters/09_llama/llama.hpp"
#include "chapters/09_llama/training_data.hpp"
#include "common/support/folder_lock.hpp"

namespace course {

class ModelFolder {
 public:
  // Before the training, for after it would be late: makes the folder and holds it for this run. Throws Error, which
  // names --save and the folder: where it holds a model, cannot be written, has too little room for options.config()'s
  // weights, or another run saves there. options.save is not empty.
  explicit ModelFolder(const TrainingOptions& options);

  // What LlamaForCausalLM.from_pretrained and AutoTokenizer read, and --model. Says on `out` what it wrote. Throws
  // Error with the file that cannot be written.
  void save(Llama& llama, const TrainingData& data, std::ostream& out) const;

 private:
  std::string dir_;
  FolderLock lock_;
};

}  // namespace course
