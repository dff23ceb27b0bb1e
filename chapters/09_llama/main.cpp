// 09: the whole Llama on one rank: tokenizer, data, AdamW, schedule, training, generation.
#include <optional>

#include "chapters/09_llama/model_folder.hpp"
#include "chapters/09_llama/recompute.hpp"
#include "chapters/09_llama/training_loop.hpp"

using namespace course;

namespace {

void print_sizes(const Llama& llama, const TrainingOptions& options, std::ostream& out) {
  const LlamaConfig& c = llama.config();
  out << "Llama " << (options.model.empty() ? options.preset : options.model) << ": vocabulary " << c.vocab_size
      << ", hidden " << c.hidden_size << ", intermediate " << c.intermediate_size << ", " << c.num_hidden_layers
      << " layers, " << c.num_attention_heads << " heads, " << c.num_key_value_heads
      << " key/value heads: " << c.parameters() << " parameters\n"
      << "batch " << options.batch << " × " << options.seq << " tokens, " << options.steps << " steps, warm-up "
      << options.warmup << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(argc, argv, [](Session& session) {
    Cli cli("09_llama", "trains a Llama on one rank, and lets it write");
    TrainingOptions options;
    options.add_to(cli, {});
    std::string tokens_file;
    cli.add("--write-tokens", tokens_file, "encode the text into this file, which --text takes then, and stop")
        .not_empty();
    cli.parse(session);
    options.settle(cli, session.size());
    options.settle_dtype(session);
    options.require_room(session);
    if (options.time_table()) session.watch();

    if (!tokens_file.empty()) return write_tokens(options, tokens_file, session);
    std::optional<ModelFolder> folder;
    if (!options.save.empty()) together(session.world(), [&] { folder.emplace(options); });
    const TrainingData data = load_data(options, session);
    Llama llama(session.backend(), options.config());
    recompute(llama, options.recompute);
    start_weights(llama, options, session.world());

    AdamW optimizer(parameters_of(llama));
    CrossEntropy loss(session.backend(), data.train.ignore());
    Trainer trainer(llama, optimizer, loss, data.train, in_order(data.train.samples(), options.batch),
                    {.schedule = options.schedule(), .accumulate = options.accumulate});
    const Traffic nothing_sent;
    TrainingLoop loop{trainer, options, data, session, nothing_sent, [&](int64_t, bool stopping) {
                        if (stopping && folder) folder->save(llama, data, session.out());
                      }};
    if (options.bench) return loop.bench("09_llama");

    print_sizes(llama, options, session.out());
    Metrics metrics = open_metrics(options, session);
    loop.run(metrics);
    if (folder) folder->save(llama, data, session.out());
    if (!options.generate.empty()) show_generated(llama, options, data, session);
    session.out() << "OK" << std::endl;
  });
}
