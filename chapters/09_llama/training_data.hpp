// From flags to samples: reads the text, finds or trains the tokenizer, encodes. Rank 0 does it, the others get the tokens.
#pragma once

#include <optional>

#include "chapters/09_llama/training_options.hpp"
#include "common/support/session.hpp"

namespace course {

// What a training reads: names to show, hashes to compare. Alike on every rank; empty with --bench.
struct DataSource {
  std::string text, text_hash;            // the files; of all ids, those held out too
  std::string tokenizer, tokenizer_hash;  // the file; of what is in it
};

struct TrainingData {
  std::string text;                    // a line that says where the text is from
  std::optional<Tokenizer> tokenizer;  // on rank 0; none with --bench
  TokenData train, held;               // the last tenth is held out
  DataSource source;
};

// A token file (token_file.hpp) as the only --text is read in place of text; its tokenizer is given then.
// Collective over world. Says on `out` what it does. Throws SharedError, on every rank, for what is wrong with a file,
// a tokenizer that is larger than the model's vocabulary, or too little text. A trained tokenizer is kept as
// data/tokenizers/HASH-SIZE.json beside the text's folder, HASH of the text; where that cannot be written it is trained
// anew each time.
TrainingData prepare_data(const TrainingOptions& options, Comm& world, std::ostream& out);

// The ids of the options' text as a token file: --write-tokens. Of one rank. Throws SharedError where another kind of
// file has that name.
void write_tokens(const TrainingOptions& options, const std::string& path, Session& session);

// Random tokens, two batches of them, the same on every rank.
TrainingData bench_data(const TrainingOptions& options);
// Those for --bench, else the text.
TrainingData load_data(const TrainingOptions& options, Session& session);

// While rank 0 works alone, the others wait in finish() of the same object; beat() now and then keeps them from taking the
// long wait for a hang (--timeout).
class SignOfLife {
 public:
  explicit SignOfLife(Comm& world) : world_(&world) {}
  void beat();    // rank 0: at most one message every 5 seconds
  void finish();  // rank 0: the work is over; the others: returns then

 private:
  void say(uint8_t over);
  Comm* world_;
  double last_ = -1;
};

}  // namespace course
