#include "chapters/09_llama/training_data.hpp"

#include <filesystem>
#include <span>

#include "chapters/09_llama/bpe_trainer.hpp"
#include "chapters/09_llama/text.hpp"
#include "chapters/09_llama/token_file.hpp"
#include "common/clock.hpp"
#include "common/rng.hpp"
#include "common/support/hash.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;

// "a.txt, b.txt", or the first two and how many more.
std::string names_of(const std::vector<std::string>& paths) {
  std::string all;
  for (size_t i = 0; i < paths.size() && (i < 2 || paths.size() == 3); ++i)
    all += cat(i > 0 ? ", " : "", fs::proximate(paths[i]).string());
  return paths.size() > 3 ? cat(all, " and ", paths.size() - 2, " more") : all;
}

DataSource source_of(const TrainingData& data, const std::vector<std::string>& texts, const std::string& tokenizer) {
  const std::string json = write_tokenizer_json(data.tokenizer->data());
  return {names_of(texts), hash_of(std::as_bytes(std::span(data.train.ids()))), tokenizer,
          hash_of(std::as_bytes(std::span(json)))};
}

// `file`: where it is kept, or would be.
Tokenizer trained_tokenizer(const std::vector<std::string>& documents, int64_t size, const std::string& near,
                            SignOfLife& life, std::ostream& out, std::string& file) {
  fs::path data = "data";
  for (fs::path at = fs::absolute(near).parent_path(); at != at.root_path(); at = at.parent_path())
    if (fs::is_directory(at / "chapters")) {
      data = at / "data";
      break;
    }
  const fs::path kept = data / "tokenizers" / cat(hash_of(documents), "-", size, ".json");
  file = fs::proximate(kept).string();
  if (fs::exists(kept)) {
    out << "tokenizer: " << file << "\n";
    return Tokenizer::load(kept);
  }
  out << "tokenizer: training " << size << " tokens on this text ..." << std::endl;
  Tokenizer tokenizer = train_bpe(std::span(documents), static_cast<int>(size), {"[BOT]", "[EOT]", "[PAD]"},
                                  [&](int, int) { life.beat(); });
  std::error_code ignored;
  fs::create_directories(kept.parent_path(), ignored);
  try {
    tokenizer.save(kept);
    out << "tokenizer: kept as " << file << "\n";
  } catch (const Error& error) {
    out << "tokenizer: not kept (" << error.what() << ")\n";
  }
  return tokenizer;
}

TrainingData read_and_encode(const TrainingOptions& options, SignOfLife& life, std::ostream& out) {
  TrainingData data;
  TextSource source{options.text, cat("text: ", options.text.size(), options.text.size() == 1 ? " file" : " files")};
  if (options.text.empty()) source = default_text();
  data.text = source.what;
  const bool encoded = source.paths.size() == 1 && is_token_file(source.paths[0]);
  std::vector<std::string> documents;
  if (!encoded) documents = read_documents(source.paths);
  out << data.text << std::endl;
  const int64_t vocabulary = options.config().vocab_size;
  std::string file = options.tokenizer;
  if (const auto beside = fs::path(options.model) / "tokenizer.json";
      file.empty() && !options.model.empty() && fs::exists(beside))
    file = beside.string();
  require(!encoded || !file.empty(), source.paths[0],
          ": holds ids; give the tokenizer that they are of by --tokenizer");
  std::string name = file;
  data.tokenizer = file.empty() ? trained_tokenizer(documents, vocabulary, source.paths[0], life, out, name)
                                : Tokenizer::load(file);
  require(data.tokenizer->size() <= vocabulary, file, ": the tokenizer has ", data.tokenizer->size(),
          " tokens, the model's vocabulary is ", vocabulary);
  const Tokenizer& tokenizer = *data.tokenizer;
  require(tokenizer.bos() && tokenizer.eos() && (options.samples == "stream" || tokenizer.pad()),
          file.empty() ? "the tokenizer" : file, ": lacks [BOT], [EOT] or [PAD], text cannot be cut into samples");
  if (!options.generate.empty()) {
    const auto prompt = tokenizer.encode(options.generate).size() + 1;
    const auto limit = static_cast<size_t>(options.config().max_position_embeddings);
    require(prompt <= limit, "--generate: a prompt of ", prompt, " tokens, the model's positions end at ", limit);
  }
  const SampleKind kind = sample_kind(options.samples);
  if (encoded) {
    require(kind == SampleKind::Stream, source.paths[0], ": holds a stream of ids, no --samples document");
    TokenFile tokens = read_token_file(source.paths[0]);
    require(tokens.vocabulary == data.tokenizer->size(), source.paths[0], ": its vocabulary is ", tokens.vocabulary,
            ", the tokenizer ", file, " has ", data.tokenizer->size(), " tokens");
    data.train = TokenData(options.seq, std::move(tokens.ids));
    data.source = source_of(data, source.paths, name);
    return data;
  }
  if (kind == SampleKind::Document) {
    std::vector<std::string> small;
    for (const auto& document : documents)
      for (auto& paragraph : paragraphs(document)) small.push_back(std::move(paragraph));
    documents = std::move(small);
  }
  data.train = TokenData(kind, options.seq, *data.tokenizer, documents);
  data.source = source_of(data, source.paths, name);
  return data;
}

}  // namespace

TrainingData prepare_data(const TrainingOptions& options, Comm& world, std::ostream& out) {
  TrainingData data;
  SignOfLife life(world);
  together(world, [&] {
    // Whatever happens on rank 0, the others are told that it is over.
    const std::shared_ptr<void> over(nullptr, [&](void*) { life.finish(); });
    if (world.rank() == 0) data = read_and_encode(options, life, out);
  });
  data.train = TokenData::broadcast(std::move(data.train), world);
  data.held = data.train.split_off(0.1);
  DataSource& s = data.source;
  for (std::string* text : {&s.text, &s.text_hash, &s.tokenizer, &s.tokenizer_hash})
    *text = world.broadcast_text(*text, 0);
  return data;
}

void write_tokens(const TrainingOptions& options, const std::string& path, Session& session) {
  require_usage(options.samples == "stream", "--write-tokens writes a stream of ids, no --samples document");
  if (std::filesystem::exists(path))
    require_shared(is_token_file(path), "--write-tokens ", path,
                   ": there is a file of that name, and it is no token file; name another");
  SignOfLife life(session.world());
  const TrainingData data = read_and_encode(options, life, session.out());
  write_token_file(path, data.train.ids(), data.tokenizer->size());
  session.out() << path << ": " << data.train.tokens() << " ids of a vocabulary of " << data.tokenizer->size() << "\n";
}

TrainingData bench_data(const TrainingOptions& options) {
  const Rng rng(options.seed, "bench tokens");
  std::vector<int32_t> tokens(2 * options.batch * options.seq + 1);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(rng.uniform(i) * options.config().vocab_size);
  TrainingData data;
  data.text = "text: random tokens";
  data.train = TokenData(options.seq, std::move(tokens));
  return data;
}

TrainingData load_data(const TrainingOptions& options, Session& session) {
  return options.bench ? bench_data(options) : prepare_data(options, session.world(), session.out());
}

void SignOfLife::say(uint8_t over) { world_->broadcast(std::span(&over, 1), 0).wait(); }

void SignOfLife::beat() {
  const double now = seconds_now();
  if (last_ >= 0 && now - last_ < 5) return;
  last_ = now;
  say(0);
}

void SignOfLife::finish() {
  if (world_->rank() == 0) return say(1);
  uint8_t over = 0;
  while (!over) world_->broadcast(std::span(&over, 1), 0).wait();
}

}  // namespace course
