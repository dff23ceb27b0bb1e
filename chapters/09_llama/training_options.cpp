#include "chapters/09_llama/training_options.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>

namespace course {
namespace {

// The multiples of `unit` around n, as one would type them: "6 or 9".
std::string multiples_around(int64_t n, int64_t unit) {
  const int64_t below = n / unit * unit;
  return below > 0 ? cat(below, " or ", below + unit) : cat(unit);
}

}  // namespace

void TrainingOptions::add_to(Cli& cli, const Takes& takes) {
  takes_ = takes;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();  // so that a product of two fits 64 bits
  cli.add("--preset", preset, "sizes of the model").one_of(preset_names());
  cli.add("--model", model, "a folder with config.json (and model.safetensors, tokenizer.json) in place of a preset")
      .not_empty();
  if (takes.tp)
    cli.add("--tp", tp, "ranks of the tensor-parallel axis; 0: the ranks left").not_negative().at_most(most);
  if (takes.dp)
    cli.add("--dp", dp, "ranks of the data-parallel axis; 0: the ranks left, or 1").not_negative().at_most(most);
  if (takes.plan) cli.add("--plan", plan, "how the layers are cut").one_of({"basic", "sequence", "article"});
  if (takes.loss_parallel) cli.add("--loss-parallel", loss_parallel, "cross-entropy on parts of the vocabulary");
  if (takes.ddp) {
    cli.add("--ddp", ddp, "whole parameters on every rank, in place of FSDP");
    cli.add("--bucket-mb", bucket_mb, "with --ddp: about so many MiB of gradients in one all-reduce")
        .positive()
        .at_most(1 << 20);
  }
  cli.add("--batch", batch, "sequences a step, over all ranks; 0: the preset's").not_negative().at_most(most);
  cli.add("--seq", seq, "tokens a sequence; 0: the preset's").not_negative().at_most(most);
  cli.add("--steps", steps, "steps of the whole training, from the very beginning").not_negative();
  cli.add("--stop-after", stop_after, "end after this step; the schedule stays that of --steps").not_negative();
  cli.add("--accumulate", accumulate, "micro-batches a step").positive().at_most(most);
  cli.add("--lr", lr, "the highest learning rate").not_negative();
  cli.add("--warmup", warmup, "steps of linear warm-up; -1: a tenth of --steps, at most 1000");
  cli.add("--seed", seed, "of the initial weights").not_negative();
  cli.add("--text", text, "UTF-8 files, or .jsonl with a field \"text\"").not_empty();
  cli.add("--tokenizer", tokenizer, "a tokenizer.json; none: one is trained on the text and kept under data/")
      .not_empty();
  cli.add("--samples", samples, "stream, or document: one a sample, padded").one_of({"stream", "document"});
  cli.add("--dtype", dtype, "f32, or mixed: weights in f32, computed with in bf16").one_of({"f32", "mixed"});
  cli.add("--recompute", recompute, "layer: each layer keeps its input alone and runs again in backward").one_of({"none", "layer"});
  if (takes.checkpoints) {
    cli.add("--save", save, "folder for checkpoints; without --save-every one at the end").not_empty();
    cli.add("--save-every", save_every, "steps between checkpoints").not_negative();
    cli.add("--resume", resume, "a checkpoint, or a folder whose newest is meant").not_empty();
    cli.add("--allow-other-text", other_text, "with --resume: train on, though on another text");
  } else {
    cli.add("--save", save, "folder for the trained model: config.json, model.safetensors, tokenizer.json").not_empty();
  }
  cli.add("--metrics", metrics, "file of JSON lines: config, step, validation, gradients, time, summary").not_empty();
  cli.add("--watch-gradients", watch_gradients, "norm of every gradient, and the first value that is not finite");
  cli.add("--dump-tensors", dump_tensors, "folder for loss, gradients and weights of each step, for ./course diff")
      .not_empty();
  cli.add("--generate", generate, "a text to go on from, after training");
  cli.add("--tokens", sampling.tokens, "how many to generate").not_negative();
  cli.add("--temperature", sampling.temperature, "of the sampling; 0: always the likeliest").not_negative();
  cli.add("--top-k", sampling.top_k, "sample among so many of the likeliest; 0: all").not_negative();
  cli.add("--top-p", sampling.top_p, "sample among the likeliest that have this probability together").positive();
  cli.add("--quiet", quiet, "no progress line, no table of times");
  cli.add("--bench", bench, "no files: time the steps on random tokens, print one JSON line");
}

void TrainingOptions::settle(const Cli& cli, int64_t ranks) {
  const Preset& sizes = course::preset(preset);
  config_ = sizes.config;
  if (!model.empty()) {
    require_usage(!cli.given("--preset"), "--preset ", preset, " and --model ", model, ": give one of them");
    const auto path = std::filesystem::path(model) / "config.json";
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    require_shared(in.good(), path.string(), ": cannot be read; --model takes a folder with a config.json");
    try {
      config_ = config_from_json(text.str(), path.string());
    } catch (const Error& error) {
      throw SharedError(error.what());
    }
  }
  if (seq == 0) seq = std::min(sizes.sequence, config_.max_position_embeddings);
  if (batch == 0) batch = sizes.batch;
  require_usage(seq <= config_.max_position_embeddings, "--seq ", seq, ": the model's positions end at ",
                config_.max_position_embeddings);

  require_usage(!takes_.ddp || ddp || !cli.given("--bucket-mb"), "--bucket-mb needs --ddp: FSDP's messages are its layers");

  if (!takes_.dp) dp = 1;
  if (!takes_.tp) tp = 1;
  if (tp == 0 && dp == 0) dp = 1;
  if (tp == 0) tp = std::max<int64_t>(1, ranks / dp);
  if (dp == 0) dp = std::max<int64_t>(1, ranks / tp);
  require_usage(tp * dp == ranks, takes_.dp ? cat("--dp ", dp, takes_.tp ? " · " : "") : "", takes_.tp ? cat("--tp ", tp) : "",
                takes_.tp || takes_.dp ? " needs " : "this program runs on ", tp * dp, tp * dp == 1 ? " rank" : " ranks", ", there ",
                ranks == 1 ? "is " : "are ", ranks, ": mpirun -n ", tp * dp);
  require_usage(batch % (dp * accumulate) == 0, "--batch ", batch, " is not a multiple of dp ", dp, " · accumulate ",
                accumulate, ": take --batch ", multiples_around(batch, dp * accumulate));
  require_usage(warmup >= -1, "--warmup ", warmup, " is negative");
  if (warmup < 0) warmup = std::min<int64_t>(1000, steps / 10);
  require_usage(save_every == 0 || !save.empty(), "--save-every ", save_every, " needs --save DIR");
  require_usage(!other_text || !resume.empty(), "--allow-other-text needs --resume DIR");
  require_usage(sampling.top_p <= 1, "--top-p ", sampling.top_p, " is above 1");
  require_usage(!bench || steps > 0, "--bench needs --steps above 0");
  require_usage(!bench || (save.empty() && resume.empty() && metrics.empty() && dump_tensors.empty()),
                "--bench writes and reads no files");
}

void TrainingOptions::settle_dtype(Session& session) {
  if (dtype != "mixed" || session.has_bf16()) return;
  if (session.rank() == 0)
    std::cerr << "note: --dtype mixed is computed in f32: not every device here is made for bf16 (a CPU needs the bf16 of AVX-512, "
                 "and a build with oneDNN)\n";
  dtype = "f32";
}

void TrainingOptions::require_room(Session& session) const {
  const double parameters = static_cast<double>(config_.parameters()) * static_cast<double>(ddp ? dp : 1);
  const std::string name = model.empty() ? "--preset " + preset : "--model " + model;
  // Trained, a parameter is four numbers: itself, its gradient, two moments.
  course::require_room(session, (last_step() > 0 ? 16 : 4) * parameters,
                       cat(name, " of ", config_.parameters(), " parameters"));
  if (last_step() == 0) return;
  // Of a micro-batch there are the logits at once, and before them what goes into each layer.
  const double numbers = static_cast<double>(config_.vocab_size) +
                         static_cast<double>(config_.num_hidden_layers) * static_cast<double>(config_.hidden_size);
  const double bytes = static_cast<double>(size_of(compute_type()));
  course::require_room(session, bytes * numbers * static_cast<double>(batch / accumulate) * static_cast<double>(seq),
                       cat("--batch ", batch, " · --seq ", seq,
                           accumulate > 1 ? cat(" over --accumulate ", accumulate) : "", " of ", name));
}

}  // namespace course
