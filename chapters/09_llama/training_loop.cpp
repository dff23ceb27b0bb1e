#include "chapters/09_llama/training_loop.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "chapters/09_llama/gradient_watch.hpp"
#include "chapters/09_llama/non_finite.hpp"
#include "chapters/09_llama/tensor_dump.hpp"
#include "common/clock.hpp"
#include "common/last_words.hpp"
#include "common/support/progress.hpp"
#include "common/support/stop_signal.hpp"
#include "common/support/time_table.hpp"

namespace course {
namespace {

using nlohmann::json;

json by_class(const BytesByClass& bytes) {
  json all;
  for (const MemoryClass c : all_memory_classes) all[name_of(c)] = bytes[c];
  return all;
}

// The held-out loss looks at so many batches at the most: enough to compare, short beside the training.
constexpr int64_t validation_batches = 16;

std::string weights_file(const TrainingOptions& options) {
  return (std::filesystem::path(options.model) / "model.safetensors").string();
}

bool has_weights(const TrainingOptions& options) {
  const std::string parts = weights_file(options) + ".index.json";
  require_shared(options.model.empty() || !std::filesystem::exists(parts), parts,
                 ": weights in several files are not read; save the model as one model.safetensors");
  return !options.model.empty() && std::filesystem::exists(weights_file(options));
}

void start_weights(Llama& llama, const TrainingOptions& options, bool from_file) {
  compute_in(llama, options.compute_type());
  if (from_file)
    load_weights(llama, weights_file(options));
  else
    initialize(llama, options.seed);
}

}  // namespace

void start_weights(Llama& llama, const TrainingOptions& options) {
  start_weights(llama, options, has_weights(options));
}

void start_weights(Llama& llama, const TrainingOptions& options, Comm& world) {
  bool from_file = false;
  together(world, [&] { from_file = has_weights(options); });
  from_file = world.max(from_file) > 0;  // who has no file then says so, and does not start from others
  together(world, [&] { start_weights(llama, options, from_file); });
}

Metrics open_metrics(const TrainingOptions& options, Session& session, bool append) {
  std::optional<Metrics> metrics;
  together(session.world(), [&] { metrics.emplace(options.metrics, session.rank() == 0, append); });
  return std::move(*metrics);
}

json describe(const TrainingOptions& o, int64_t ranks) {
  return {{"preset", o.model.empty() ? o.preset : o.model},
          {"model", json::parse(to_json(o.config()))},
          {"ranks", ranks},
          {"dp", o.dp},
          {"tp", o.tp},
          {"plan", o.plan},
          {"loss_parallel", o.loss_parallel},
          {"batch", o.batch},
          {"seq", o.seq},
          {"steps", o.steps},
          {"warmup", o.warmup},
          {"lr", o.lr},
          {"seed", o.seed},
          {"accumulate", o.accumulate},
          {"recompute", o.recompute},
          {"samples", o.samples},
          {"dtype", o.dtype}};
}

double TrainingLoop::validate(Metrics& metrics) {
  const double loss = trainer.validate(data.held, options.batch, validation_batches * options.batch);
  metrics.write("validation", {{"step", trainer.steps()}, {"loss", loss}});
  return loss;
}

void TrainingLoop::stop(int signal, int64_t start) {
  const int64_t step = trainer.steps();
  std::string kept;
  if (step == start)
    kept = "before its first step, nothing is saved";
  else if (options.save.empty())
    kept = "nothing is saved without --save";
  else if (options.checkpoints())
    kept = cat("--resume ", options.save, " goes on");
  else
    kept = cat("what it has learnt is in ", options.save);
  if (session.rank() == 0)
    std::cerr << cat("stopped by ", signal == SIGINT ? "SIGINT" : "SIGTERM", " after step ", step, " of ", options.steps, ": ",
                     kept, "\n");
  throw EarlyExit{128 + signal};
}

// The trainer's step. One that is not finite is tried again with every tensor looked at, for where it began: the weights
// are still those before it.
StepResult TrainingLoop::step() {
  try {
    return trainer.step();
  } catch (const NonFiniteStep& error) {
    throw NonFiniteStep(cat(error.what(), "; ", first_non_finite_value()));
  }
}

std::string TrainingLoop::first_non_finite_value() {
  std::string bad;
  for (Parameter* p : parameters_of(trainer.model()))
    if (bad.empty() && p->owned().defined())
      if (const std::string where = bad_value(p->backend(), p->owned(), p->owned_box(), p->global()); !where.empty())
        bad = cat("weight ", p->name(), " on rank ", session.rank(), ", ", where);
  for (const std::string& text : session.world().all_gather_text(bad))
    if (!text.empty()) return cat(kFirstBad, text);
  GradientWatch watch(trainer.model(), session.world());
  trainer.on_gradients([&](int64_t step) { watch.look(step); });
  try {
    trainer.step();
  } catch (const NonFiniteStep&) {
    const std::string& bad = watch.first_bad_value();
    return bad.empty() ? "all outputs and gradients are finite" : cat(kFirstBad, bad);
  }
  return "tried again it was finite, and that step was taken";
}

void TrainingLoop::run(Metrics& metrics) {
  const int64_t start = trainer.steps(), last = options.last_step();
  if (start >= last) return;
  StopSignal stop_signal;
  if (metrics.fresh()) metrics.write("config", describe(options, session.size()));
  Activity* activity = session.activity();
  trainer.watch(activity);
  std::optional<GradientWatch> watch;
  std::optional<TensorDump> dump;
  if (options.watch_gradients) watch.emplace(trainer.model(), session.world());
  if (!options.dump_tensors.empty())
    dump.emplace(options.dump_tensors, parameters_of(trainer.model()), session.world(), start > 0);
  trainer.on_gradients([&](int64_t step) {
    if (watch) {
      if (watch->look(step) && session.rank() == 0) std::cerr << watch->first_bad() << std::endl;
      metrics.write("gradients", watch->json(step));
    }
    if (dump) dump->gradients();
  });
  if (options.compute_type() == DType::BF16)
    session.out() << "mixed precision: weights and their gradients in f32, computed with in bf16\n";
  const double before = validate(metrics);
  session.out() << "held-out loss before step " << start + 1 << ": " << before << std::endl;

  Progress progress(options.steps, session.rank() == 0 && !options.quiet);
  double seconds = 0;
  int64_t tokens = 0;
  Totals spent;
  int signal = stop_signal.agreed(session.world());
  while (!signal && trainer.steps() < last) {
    note_step(trainer.steps() + 1);
    session.backend().reset_peak();
    const Traffic before = traffic;
    const double begin = seconds_now();
    if (activity) activity->count_into(&spent);
    const StepResult r = step();
    if (activity) activity->count_into(nullptr);
    ++spent.steps;
    const double took = seconds_now() - begin;
    const Traffic sent = traffic.since(before);
    const MemoryUse memory = session.backend().memory_use();
    if (!first) {
      first = r;
      first_traffic = sent;
      first_memory = memory;
    }
    seconds += took;
    tokens += r.tokens;
    const double rate = static_cast<double>(r.tokens) / took;
    metrics.write("step", {{"step", r.step},
                           {"loss", r.loss},
                           {"grad_norm", r.grad_norm},
                           {"lr", r.lr},
                           {"tokens", r.tokens},
                           {"step_ms", took * 1e3},
                           {"tokens_per_s", rate},
                           {"sent_bytes", sent.total().bytes},
                           {"peak_bytes", memory.peak},
                           {"peak_by_class", by_class(memory.at_peak)}});
    progress.step(r.step, r.loss, rate);
    if (dump) dump->write(r.step, r.loss);
    signal = stop_signal.agreed(session.world());
    const Phase phase(activity, "save");
    after_step(r.step, signal != 0);
  }
  note_step(0);
  progress.finish();
  trainer.on_gradients({});
  if (signal) stop(signal, start);
  const double after = validate(metrics);
  session.out() << "held-out loss after step " << last << ": " << after << "   (" << last - start << " steps, "
                << static_cast<int64_t>(static_cast<double>(tokens) / seconds) << " tokens/s)" << std::endl;
  if (watch) session.out() << "\n" << watch->table() << std::endl;
  if (activity && options.time_table()) {
    spent.tokens = tokens, spent.seconds = seconds;
    const TimeTable table = time_table(spent, session.world());
    session.out() << "\n" << table.str() << std::endl;
    metrics.write("time", table.json());
  }
  metrics.write("summary", {{"steps", last},
                            {"seconds", seconds},
                            {"tokens", tokens},
                            {"tokens_per_s", static_cast<double>(tokens) / seconds},
                            {"validation_before", before},
                            {"validation_after", after}});
}

void TrainingLoop::bench(const std::string& program) {
  std::vector<double> ms;
  double loss = 0;
  trainer.watch(session.activity());
  for (int64_t i = 0; i < 3 + options.steps; ++i) {
    const double begin = seconds_now();
    loss = trainer.step().loss;
    if (i >= 3) ms.push_back((seconds_now() - begin) * 1e3);
  }
  std::nth_element(ms.begin(), ms.begin() + ms.size() / 2, ms.end());
  const double median = ms[ms.size() / 2];
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const json line = {{"program", program},
                     {"preset", options.preset},
                     {"dp", options.dp},
                     {"tp", options.tp},
                     {"plan", options.plan},
                     {"dtype", options.dtype},
                     {"loss_parallel", options.loss_parallel},
                     {"step_ms", median},
                     {"tokens_per_s", static_cast<double>(options.batch * options.seq) / median * 1e3},
                     {"loss", loss},
                     {"rss_mb", use.ru_maxrss / 1024}};
  session.out() << line.dump() << std::endl;
}

void show_generated(Llama& llama, const TrainingOptions& options, const TrainingData& data, Session& session) {
  std::vector<int32_t> prompt;
  std::optional<int32_t> end;
  std::optional<StreamDecoder> decoder;
  GenerateOptions sampling = options.sampling;
  if (data.tokenizer) {  // on rank 0
    sampling.vocabulary = data.tokenizer->size();
    prompt = data.tokenizer->encode(options.generate);
    if (const auto begin = data.tokenizer->bos()) prompt.insert(prompt.begin(), *begin);
    end = data.tokenizer->eos();
    decoder.emplace(*data.tokenizer);
    session.out() << "\n" << options.generate << std::flush;
  }
  generate(llama, prompt, end, sampling, session.world(),
           [&](int32_t id) { session.out() << decoder->push(id) << std::flush; });
  if (decoder) session.out() << decoder->finish() << "\n" << std::endl;
}

}  // namespace course
